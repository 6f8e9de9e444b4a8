//! Generates the replacement of a function that could not be expanded.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::Token;

use super::attributes::is_outer;
use super::span::{at, nested};
use crate::args::Args;
use crate::function::{Function, bindings, returns_future};

/// A function that can be used like the one that was meant, so that neither its callers nor its imports cause further
/// errors. Its body is never reached: the `compile_error!` next to it fails the build, and tools that continue
/// nevertheless must not run it unlocked.
pub(crate) fn expand(function: &Function, args: &Args) -> TokenStream {
    if args.mentions_manager || function.receiver().is_some() { as_written(function) } else { handler(function) }
}

/// The function as it was written.
fn as_written(function: &Function) -> TokenStream {
    let Function { attrs, vis, defaultness, sig, .. } = function;
    let never_run = never_run(function, &sig.ident);
    quote_spanned!(Span::mixed_site()=> #(#attrs)* #vis #defaultness #never_run)
}

/// A handler without parameters, which any route accepts, with the function as it was written nested in it.
fn handler(function: &Function) -> TokenStream {
    let Function { attrs, vis, sig, .. } = function;
    let outer_attrs = attrs.iter().filter(|attr| is_outer(attr));
    let inner_attrs = attrs.iter().filter(|attr| !is_outer(attr));
    let (name, mut inner_name) = (&sig.ident, sig.ident.clone());
    // The hygiene of the macro keeps a lint about the name from being raised twice.
    inner_name.set_span(at(name.span()));
    let inner = never_run(function, &inner_name);
    let (generics, _, where_clause) = sig.generics.split_for_impl();
    quote_spanned! {Span::mixed_site()=>
        #(#outer_attrs)*
        #vis async fn #name #generics () #where_clause {
            #[allow(dead_code)]
            #(#inner_attrs)*
            #inner
        }
    }
}

/// The signature, under the given name, with a body that compiles but is not reached.
fn never_run(function: &Function, name: &Ident) -> TokenStream {
    let body = nested(&function.body);
    let inner_attrs = &function.inner_attrs;
    let names = function.params().flat_map(|param| bindings(&param.pat));
    let mut sig = function.sig.clone();
    sig.ident = name.clone();
    // A forgotten `async` has already been reported. It is added, so that rustc does not report every `.await` as well.
    if sig.asyncness.is_none() && !returns_future(&sig.output) {
        sig.constness = None;
        sig.asyncness = Some(Token![async](Span::mixed_site()));
    }
    quote_spanned! {Span::mixed_site()=>
        #sig {
            #(#inner_attrs)*
            // A condition keeps the body reachable for rustc: it still infers types from it and raises no lint.
            if true {
                loop {}
            }
            // What only the arguments of the attribute name is not reported as unused.
            #(let _ = &#names;)*
            #body
        }
    }
}
