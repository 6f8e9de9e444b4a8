//! Generates the replacement of a function that could not be expanded.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Token;

use super::span::nested;
use crate::function::{Function, returns_future};

/// The function as it was written, so that neither its callers nor its imports cause further errors. Its body is never
/// reached: the `compile_error!` next to it fails the build, and tools that continue nevertheless must not run it
/// unlocked.
pub(crate) fn expand(function: &Function) -> TokenStream {
    let Function { attrs, inner_attrs, vis, defaultness, sig, body } = function;
    let body = nested(body);
    let mut sig = sig.clone();
    // A forgotten `async` has already been reported. It is added, so that rustc does not report every `.await` as well.
    if sig.asyncness.is_none() && !returns_future(&sig.output) {
        sig.constness = None;
        sig.asyncness = Some(Token![async](Span::mixed_site()));
    }
    quote_spanned! {Span::mixed_site()=>
        #(#attrs)*
        #vis #defaultness #sig {
            #(#inner_attrs)*
            // A condition keeps the body reachable for rustc: it still infers types from it and raises no lint.
            if true {
                loop {}
            }
            #body
        }
    }
}
