//! An axum handler: an outer function that axum calls, around the user's own.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{GenericParam, Generics, PatType, Visibility};

use super::attributes::is_outer;
use super::{at, key, krate, nested, output, policy, start};
use crate::args::{Args, Key};
use crate::bindings;
use crate::input::Function;
use crate::params::{self, Fill, Value, Wrapper};
use crate::validate::is_named;

/// A parameter of the handler, and what it becomes.
struct Param<'a> {
    written: &'a PatType,
    /// Its name in the outer function.
    outer: Ident,
    /// `None`: axum extracts it.
    fill: Option<Fill>,
}

pub(crate) fn expand(function: &Function, args: &Args, key: &Key) -> TokenStream {
    let Function { attrs, inner_attrs, vis, sig, .. } = function;
    let site = Span::mixed_site();
    let krate = krate(args, site);
    let params: Vec<_> = function
        .params()
        .enumerate()
        .map(|(index, written)| Param {
            written,
            outer: format_ident!("__arg{index}", span = site),
            fill: params::filled(&written.ty),
        })
        .collect();

    let (name, async_token, fn_token) = (&sig.ident, sig.asyncness, sig.fn_token);
    let (generics, _, where_clause) = sig.generics.split_for_impl();
    let outer_attrs = attrs.iter().filter(|attr| is_outer(attr));
    let outer_params = params.iter().filter(|param| param.fill.is_none()).map(|Param { written, outer, .. }| {
        let ty = &written.ty;
        quote_spanned!(site=> #outer: #ty)
    });
    let inner = inner(function, &params, key);
    let key = build_key(&params, key, &krate);
    let policy = policy::expand(args);
    let carry = params.iter().filter_map(|param| carry(param, &krate));
    let call = call(function, &params, &krate, args);

    // Located at the name: if the body's future is not `Send` or borrows, it is this handler's.
    let caller = self::krate(args, name.span());
    let guarded = quote_spanned! {at(name.span())=>
        #caller::__private::guard_handler(__manager, __key, #policy, move |__lease: #krate::Lease| async move {
            #(#carry)*
            #call
        })
        .await
    };
    let block = quote_spanned! {site=>
        #(#inner_attrs)*
        #inner
        let __key: ::std::string::String = #key;
        #guarded
    };
    let mut block = Group::new(Delimiter::Brace, block);
    // From `async` to the last brace the outer function is the user's: so rustc warns of a handler that no route uses.
    block.set_span(function.body.span());
    let allowed = allowed(function, &params);

    quote_spanned! {site=>
        #allowed
        #(#outer_attrs)*
        #vis #async_token #fn_token #name #generics (
            __manager: #krate::__private::Manager,
            #(#outer_params,)*
        ) -> ::core::result::Result<#krate::__private::Response, #krate::LockRejection>
        #where_clause
        #block
    }
}

/// Those lints which the outer function may raise and the written one not: each only where it may, since `allow` is an
/// error under `forbid`. Above the written attributes, which have the last word.
fn allowed(function: &Function, params: &[Param<'_>]) -> TokenStream {
    let many = params.len() >= 7;
    let visible = !matches!(function.vis, Visibility::Inherited);
    let many = many.then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::too_many_arguments)]));
    let visible = visible.then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::missing_errors_doc)]));
    quote_spanned!(Span::mixed_site()=> #many #visible)
}

/// The user's function as it was written, inside the outer one and under the same name.
fn inner(function: &Function, params: &[Param<'_>], key: &Key) -> TokenStream {
    let Function { attrs, sig, .. } = function;
    let body = nested(&function.body);
    let site = Span::mixed_site();
    let attrs = attrs.iter().filter(|attr| !is_outer(attr));
    let mut name = sig.ident.clone();
    // With the user's position but from the macro: a lint about the name is raised once, for the outer function.
    name.set_span(at(name.span()));
    let (generics, inputs, output) = (&sig.generics, &sig.inputs, &sig.output);
    let (generics, where_clause) = (generics.split_for_impl().0, &generics.where_clause);
    // A binding that only the key needs would be unused here.
    let used = params.iter().flat_map(|param| bindings::names(&param.written.pat)).filter(|name| is_in_key(name, key));
    quote_spanned! {site=>
        #(#attrs)*
        async fn #name #generics (#inputs) #output #where_clause {
            #(let _ = &#used;)*
            #body
        }
    }
}

fn build_key(params: &[Param<'_>], key: &Key, krate: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let wanted = |name: &Ident| is_in_key(name, key);
    let extracted = || params.iter().filter(|param| param.fill.is_none());
    let destructure = extracted().filter_map(|Param { written, outer, .. }| {
        let pat = bindings::by_reference(&written.pat, &wanted)?;
        Some(quote_spanned!(site=> let #pat = &#outer;))
    });
    let bound: Vec<_> =
        extracted().flat_map(|param| bindings::names(&param.written.pat)).filter(|name| wanted(name)).collect();
    let (unused, value) = match key {
        Key::Template(template) => (&[][..], key::from_template(template, &bound, krate)),
        Key::Expr(expr) => (&bound[..], key::from_expr(expr)),
    };
    quote_spanned! {site=>
        {
            #(#destructure)*
            #(let _ = #unused;)*
            #value
        }
    }
}

/// Whether the key may need this binding. An expression may hide its names in macros: it gets all of them.
fn is_in_key(name: &Ident, key: &Key) -> bool {
    match key {
        Key::Template(template) => template.placeholders().any(|placeholder| is_named(name, &placeholder.binding)),
        Key::Expr(_) => true,
    }
}

/// Puts the lease into a request, before the handler gets it.
fn carry(Param { written, outer, fill }: &Param<'_>, krate: &TokenStream) -> Option<TokenStream> {
    if fill.is_some() || !params::carries(&written.ty) {
        return None;
    }
    // The trait is for types that share only the name with a request: there `carry` does nothing.
    Some(quote_spanned! {Span::mixed_site()=>
        let mut #outer = #outer;
        {
            use #krate::__private::CarryNothing as _;
            #krate::__private::Carrier(&mut #outer).carry(&__lease);
        }
    })
}

/// Calls the inner function and converts its answer, under the lock.
fn call(function: &Function, params: &[Param<'_>], krate: &TokenStream, args: &Args) -> TokenStream {
    let sig = &function.sig;
    let values = params.iter().map(|Param { written, outer, fill }| {
        // Located at the type: if it has the name of the lock's type but is another one, that is the place.
        let site = at(start(&written.ty));
        let Some(Fill { value, wrapper }) = fill else {
            let mut outer = outer.clone();
            outer.set_span(site);
            return quote_spanned!(site=> #outer);
        };
        let value = match value {
            Value::Lease => quote_spanned!(site=> <#krate::Lease as ::core::clone::Clone>::clone(&__lease)),
            Value::FencingToken => quote_spanned!(site=> __lease.token()),
        };
        match wrapper {
            Wrapper::None => value,
            Wrapper::Extension => quote_spanned!(site=> #krate::__private::Extension(#value)),
            Wrapper::Option => quote_spanned!(site=> ::core::option::Option::Some(#value)),
        }
    });
    // Located at the return type: if it is no response, that is the place.
    let site = at(output(sig));
    let mut name = sig.ident.clone();
    name.set_span(site);
    let turbofish = turbofish(&sig.generics);
    let krate = self::krate(args, output(sig));
    quote_spanned!(site=> #krate::__private::into_response(#name #turbofish (#(#values),*).await))
}

/// The type and const parameters, since the arguments need not determine them. Lifetimes are left to inference: those that
/// are bound late can not be written.
fn turbofish(generics: &Generics) -> TokenStream {
    let names: Vec<_> = generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(&param.ident),
            GenericParam::Const(param) => Some(&param.ident),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    if names.is_empty() { TokenStream::new() } else { quote_spanned!(Span::mixed_site()=> ::<#(#names),*>) }
}
