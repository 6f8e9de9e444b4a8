//! Generates a guarded handler: an outer function that axum calls, with the user's function nested in it.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote_spanned};
use syn::{GenericParam, Generics, PatType, Visibility};

use super::attributes::is_outer;
use super::span::{at, first_token, nested, return_type};
use super::{policy, resource, unfilled};
use crate::args::{Args, ResourceSource};
use crate::function::{
    Function, Injected, InjectedValue, Wrapper, bindings, by_reference, injected, may_read_body, tuple_members,
};

/// A parameter of the handler.
struct Param<'a> {
    written: &'a PatType,
    /// Its name in the outer function.
    outer: Ident,
    /// `None` if axum extracts it.
    injected: Option<Injected>,
}

/// In one piece, so that the code that is generated is read in one piece.
pub(crate) fn expand(function: &Function, args: &Args, source: &ResourceSource) -> TokenStream {
    let Function { attrs, inner_attrs, vis, sig, .. } = function;
    let site = Span::mixed_site();
    let krate = args.crate_path(site);
    let params: Vec<_> = function
        .params()
        .enumerate()
        .map(|(index, written)| Param {
            written,
            outer: format_ident!("__arg{index}", span = site),
            injected: injected(&written.ty),
        })
        .collect();

    // axum lets only the last extractor read the body.
    let counted =
        params.iter().rfind(|param| param.injected.is_none()).filter(|param| may_read_body(&param.written.ty));
    let (name, async_token, fn_token) = (&sig.ident, sig.asyncness, sig.fn_token);
    let (generics, _, where_clause) = sig.generics.split_for_impl();
    let outer_attrs = attrs.iter().filter(|attr| is_outer(attr));
    let outer_params =
        params.iter().filter(|param| param.injected.is_none()).map(|Param { written, outer, .. }| {
            let ty = counted_type(written, counted, args);
            quote_spanned!(site=> #outer: #ty)
        });
    let inner = inner(function, &params, source);
    let (resource_type, resource) = build_resource(&params, source, &krate);
    let policy = policy::expand(args);
    let read = read_bytes(counted, &krate);
    let on_error = on_error(args, &krate);
    let manager = manager(args, &krate);
    let receive = params.iter().filter_map(|param| receive(param, args));
    let call = call(function, &params, &krate, args);

    // Located at the handler's name, where rustc reports that the future is not `Send` or borrows.
    let caller = args.crate_path(name.span());
    let site_of_guard = at(name.span());
    let (guard, hold) = if args.holds_session() {
        let hold = quote_spanned!(site_of_guard=> , __hold: #krate::Hold);
        (Ident::new("guard_session_handler", site_of_guard), hold)
    } else {
        (Ident::new("guard_handler", site_of_guard), TokenStream::new())
    };
    let held = Ident::new(if source.is_set() { "Leases" } else { "Lease" }, site_of_guard);
    let guarded = quote_spanned! {site_of_guard=>
        #caller::__private::#guard(
            __manager.0,
            __read,
            __resource,
            __policy,
            #on_error,
            move |__lease: #krate::#held #hold| async move {
                #(#receive)*
                #call
            },
        )
        .await
    };
    let block = quote_spanned! {site=>
        #(#inner_attrs)*
        #inner
        let __policy = #policy;
        #read
        let __resource: #resource_type = #resource;
        #guarded
    };
    let mut block = Group::new(Delimiter::Brace, block);
    // The outer function keeps the user's spans from `async` to the last brace, so that rustc still warns of a handler
    // that no route uses.
    block.set_span(function.body.span());
    let allowed_lints = allowed_lints(function, &params);

    quote_spanned! {site=>
        #allowed_lints
        #(#outer_attrs)*
        #vis #async_token #fn_token #name #generics (
            #manager,
            #(#outer_params,)*
        ) -> ::core::result::Result<#krate::__private::Response, #krate::LockRejection>
        #where_clause
        #block
    }
}

/// The parameter for the lock manager, which binds `__manager`.
fn manager(args: &Args, krate: &TokenStream) -> TokenStream {
    match args.name("state") {
        // In a tuple, because rustc would report a second error at the route if the type itself did not exist.
        None => quote_spanned!(Span::mixed_site()=> (__manager,): (#krate::__private::Manager,)),
        // Located at `state`, where `debug_handler` reports that the state has no manager.
        Some(state) => {
            let krate = args.crate_path(state.span());
            quote_spanned!(at(state.span())=> __manager: #krate::__private::ManagerFromState)
        }
    }
}

/// The type of a parameter in the outer function: as it was written, except of the one whose reading is counted.
fn counted_type(written: &PatType, counted: Option<&Param<'_>>, args: &Args) -> TokenStream {
    let ty = &written.ty;
    if counted.is_none_or(|counted| !std::ptr::eq(counted.written, written)) {
        return ty.to_token_stream();
    }
    // Located at the type, where rustc reports that it is not an extractor.
    let site = first_token(ty);
    let krate = args.crate_path(site);
    let timeout = args.body_timeout.map(|timeout| {
        let millis = u64::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        quote_spanned!(at(site)=> , #millis)
    });
    quote_spanned!(at(site)=> #krate::__private::Counted<#ty #timeout>)
}

/// Separates the extracted value from the account of what was read for it.
fn read_bytes(counted: Option<&Param<'_>>, krate: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    match counted {
        None => {
            quote_spanned!(site=> let __read = <#krate::__private::ReadBytes as ::core::default::Default>::default();)
        }
        Some(Param { outer, .. }) => quote_spanned! {site=>
            let (#outer, __read) = #krate::__private::Counted::into_parts(#outer, &__policy)?;
        },
    }
}

/// Allows the lints that only the outer function would raise. Each is allowed only where it can occur, because `allow`
/// is an error under `forbid`. They precede the user's attributes, so that those take precedence.
fn allowed_lints(function: &Function, params: &[Param<'_>]) -> TokenStream {
    let many = params.len() >= 7;
    let visible = !matches!(function.vis, Visibility::Inherited);
    let many = many.then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::too_many_arguments)]));
    let visible = visible.then(|| quote_spanned!(Span::mixed_site()=> #[allow(clippy::missing_errors_doc)]));
    quote_spanned!(Span::mixed_site()=> #many #visible)
}

/// The user's function as it was written, nested in the outer one under the same name.
fn inner(function: &Function, params: &[Param<'_>], source: &ResourceSource) -> TokenStream {
    let Function { attrs, sig, .. } = function;
    let body = nested(&function.body);
    let site = Span::mixed_site();
    let attrs = attrs.iter().filter(|attr| !is_outer(attr));
    let mut name = sig.ident.clone();
    // The hygiene of the macro keeps a lint about the name from being raised twice.
    name.set_span(at(name.span()));
    let (generics, inputs, output) = (&sig.generics, &sig.inputs, &sig.output);
    let (generics, where_clause) = (generics.split_for_impl().0, &generics.where_clause);
    // A binding that is only part of the resource would otherwise be reported as unused.
    let names = params.iter().flat_map(|param| bindings(&param.written.pat));
    let used = names.filter(|name| source.may_need(name));
    quote_spanned! {site=>
        #(#attrs)*
        async fn #name #generics (#inputs) #output #where_clause {
            #(let _ = &#used;)*
            #body
        }
    }
}

/// A block that yields the resource. It borrows from the extracted values, which the handler still needs.
fn build_resource(params: &[Param<'_>], source: &ResourceSource, krate: &TokenStream) -> (TokenStream, TokenStream) {
    let site = Span::mixed_site();
    let wanted = |name: &Ident| source.may_need(name);
    let extracted = || params.iter().filter(|param| param.injected.is_none());
    let destructure = extracted().filter_map(|Param { written, outer, .. }| {
        let pat = by_reference(&written.pat, &wanted)?;
        Some(quote_spanned!(site=> let #pat = &#outer;))
    });
    let bound: Vec<_> =
        extracted().flat_map(|param| bindings(&param.written.pat)).filter(|name| wanted(name)).collect();
    // An expression is given all bindings and need not use any of them.
    let unused = if matches!(source, ResourceSource::Expr(_)) { &bound[..] } else { &[] };
    let (ty, value) = resource::expand(source, &bound, krate);
    let block = quote_spanned! {site=>
        {
            #(#destructure)*
            #(let _ = #unused;)*
            #value
        }
    };
    (ty, block)
}

/// The user's `on_error` as a function that returns a response. Located at its path, where rustc reports a wrong type.
fn on_error(args: &Args, krate: &TokenStream) -> TokenStream {
    match &args.on_error {
        None => quote_spanned!(Span::mixed_site()=> ::core::option::Option::None),
        Some(path) => quote_spanned! {at(first_token(path))=>
            ::core::option::Option::Some(
                |__error: #krate::LockError| #krate::__private::respond(#path, __error)
            )
        },
    }
}

/// Gives an extracted parameter the lease, before the handler gets the parameter. The macro sees only names, so it asks
/// rustc whether the type is one that carries the lease, or one that cannot have been extracted.
fn receive(Param { written, outer, injected }: &Param<'_>, args: &Args) -> Option<TokenStream> {
    if injected.is_some() {
        return None;
    }
    // Located at the type, where rustc reports a lease under another name.
    let site = first_token(&written.ty);
    let krate = args.crate_path(site);
    // To rustc, any tuple is a type like all others.
    let check = Ident::new("check_extracted", Span::mixed_site());
    let members = tuple_members(&written.ty).into_iter().map(|ty| unfilled::statement(ty, &check, args));
    Some(quote_spanned! {at(site)=>
        #(#members)*
        let mut #outer = #outer;
        {
            use #krate::__private::AnyParam as _;
            #krate::__private::check_extracted(#krate::__private::Param(&mut #outer).receive(&__lease));
        }
    })
}

/// Calls the inner function and converts its output into a response, both under the lock.
fn call(function: &Function, params: &[Param<'_>], krate: &TokenStream, args: &Args) -> TokenStream {
    let sig = &function.sig;
    let values = params.iter().map(|Param { written, outer, injected }| {
        // Located at the type, where rustc reports that it only has the same name as the lock's type.
        let site = at(first_token(&written.ty));
        let Some(Injected { value, wrapper }) = injected else {
            let mut outer = outer.clone();
            outer.set_span(site);
            return quote_spanned!(site=> #outer);
        };
        let value = match value {
            InjectedValue::Lease => quote_spanned!(site=> <#krate::Lease as ::core::clone::Clone>::clone(&__lease)),
            InjectedValue::Leases => quote_spanned!(site=> <#krate::Leases as ::core::clone::Clone>::clone(&__lease)),
            InjectedValue::FencingToken => quote_spanned!(site=> __lease.token()),
            InjectedValue::Hold => quote_spanned!(site=> __hold),
        };
        match wrapper {
            Wrapper::None => value,
            Wrapper::Extension => quote_spanned!(site=> #krate::__private::Extension(#value)),
            Wrapper::Option => quote_spanned!(site=> ::core::option::Option::Some(#value)),
        }
    });
    // Located at the return type, where rustc reports that it is not `IntoResponse`.
    let site = at(return_type(sig));
    let mut name = sig.ident.clone();
    name.set_span(site);
    let turbofish = turbofish(&sig.generics);
    let krate = args.crate_path(return_type(sig));
    quote_spanned!(site=> #krate::__private::into_response(#name #turbofish (#(#values),*).await))
}

/// The type and const parameters, because the arguments need not determine them. Lifetimes are inferred: late-bound
/// ones cannot be specified.
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
