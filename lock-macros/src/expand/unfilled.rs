//! Generates the checks for parameters of a function with `manager` that look as if the lock filled them.

use std::iter::once;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::Type;

use super::mentions::mentions;
use super::span::{at, first_token};
use crate::args::Args;
use crate::function::{Function, can_be_extracted, is_extractor, tuple_members};

/// Statements that rustc rejects if a router would have to fill in a lease, for which it is too early: the lock is acquired
/// in the function. They are checked by type, so that an alias of `Lease` is found, too.
///
/// A function that looks like a handler must not have a parameter `Lease` at all. Any other function may be passed one. If
/// it could nevertheless be used as a handler, it must not have a parameter `Option<Lease>`, which would be `None`.
pub(super) fn checks(function: &Function, args: &Args) -> Vec<TokenStream> {
    // Neither a method nor a function with `impl Trait` can be a handler, and there is no path with `impl Trait`.
    let impl_token = Ident::new("impl", Span::mixed_site());
    let is_generic = function.params().any(|param| mentions(param.ty.to_token_stream(), &impl_token));
    let check = if function.receiver().is_some() || is_generic {
        return Vec::new();
    } else if function.params().any(is_extractor) {
        "check_filled_by_router"
    } else if function.params().all(|param| can_be_extracted(&param.ty)) {
        "check_filled_by_caller"
    } else {
        return Vec::new();
    };
    let check = Ident::new(check, Span::mixed_site());
    let types = function.params().flat_map(|param| once(&*param.ty).chain(tuple_members(&param.ty)));
    types.map(|ty| statement(ty, &check, args)).collect()
}

/// Calls a check with the kind of a type. Located at the type, where rustc reports it.
pub(super) fn statement(ty: &Type, check: &Ident, args: &Args) -> TokenStream {
    let site = first_token(ty);
    let krate = args.crate_path(site);
    quote_spanned! {at(site)=>
        {
            use #krate::__private::AnyType as _;
            #krate::__private::#check(#krate::__private::ParamType::<#ty>::kind());
        }
    }
}
