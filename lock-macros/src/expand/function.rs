//! Generates a guarded function or method, one with `manager = …`: the signature stays, the body is wrapped.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ReturnType, Token, Type, TypeInfer};

use super::mentions::mentions;
use super::span::{at, first_token, nested, return_type};
use super::{policy, resource, unfilled};
use crate::args::{Args, ResourceSource};
use crate::function::{Function, bindings};

/// A single item: in a trait or its implementation, a second one would not be allowed.
pub(crate) fn expand(function: &Function, args: &Args, source: &ResourceSource, manager: &Expr) -> TokenStream {
    let Function { attrs, inner_attrs, vis, defaultness, sig, body } = function;
    let body = nested(body);
    let site = Span::mixed_site();
    let krate = args.crate_path(site);
    // Matched, because an expression such as `locks(&app)?` is then typed by itself: were it the argument, rustc would expect a
    // manager where it yields a reference to one.
    let manager = quote_spanned! {at(first_token(manager))=>
        match &(#manager) {
            __manager => <#krate::LockManager as ::core::clone::Clone>::clone(__manager),
        }
    };
    let checks = unfilled::checks(function, args);
    let captured = captured(function, source, &body.stream());
    let (resource_type, resource) = resource::expand(source, &names(function), &krate);
    let policy = policy::expand(args);
    let return_type_hint = return_type_hint(&sig.output);
    // Located at the return type, where rustc reports that it is not a `Result` or that its error is not
    // `From<LockError>`.
    let guarded = {
        let krate = args.crate_path(return_type(sig));
        quote_spanned! {at(return_type(sig))=>
            #krate::__private::guard_function(__manager, __resource, #policy, #krate::__private::outcome(), async move {
                #(#[allow(clippy::used_underscore_binding)] let _ = &#captured;)*
                #return_type_hint
                #body
            }).await
        }
    };

    quote_spanned! {site=>
        #(#attrs)*
        #vis #defaultness #sig {
            #(#inner_attrs)*
            #(#checks)*
            let __manager = #manager;
            let __resource: #resource_type = #resource;
            #guarded
        }
    }
}

/// The names that a placeholder may refer to.
fn names(function: &Function) -> Vec<Ident> {
    let mut names: Vec<_> = function.params().flat_map(|param| bindings(&param.pat)).collect();
    names.extend(function.receiver().map(|receiver| Ident::new("self", receiver.self_token.span)));
    names
}

/// The parameters that the body's future must capture explicitly. An `async move` block captures only what it names, and of that only the
/// fields that it uses; what it does not capture would be dropped after the lock is released.
///
/// That is the receiver, a name that begins with `_`, a name in the body, and a name in the template. Any other parameter keeps rustc's
/// warning that it is unused. Nothing that a `key` expression names is captured: it may have moved it.
fn captured(function: &Function, source: &ResourceSource, body: &TokenStream) -> Vec<Ident> {
    let may_be_unused = |name: &Ident| name == "self" || name.to_string().starts_with('_');
    let is_needed = |name: &Ident| may_be_unused(name) || mentions(body.clone(), name);
    let captured = |name: &Ident| match source {
        ResourceSource::Expr(expr) => is_needed(name) && !mentions(expr.to_token_stream(), name),
        ResourceSource::Template(_) | ResourceSource::Set(_) => is_needed(name) || source.may_need(name),
    };
    names(function).into_iter().filter(captured).collect()
}

/// An unreachable `return` at the start of the body, which tells rustc the type of the `async` block. There is no
/// syntax for that type; without it, `?` would not know the error to convert into, and a wrong type would be reported
/// far from the expression that has it.
///
/// The value comes from an `Option`, because after a diverging expression rustc would report the body as unreachable
/// code.
fn return_type_hint(output: &ReturnType) -> TokenStream {
    let ReturnType::Type(_, ty) = output else { return TokenStream::new() };
    let mut ty = ty.clone();
    InferImplTrait.visit_type_mut(&mut ty);
    quote_spanned! {at(first_token(&ty))=>
        if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<#ty> {
            return __output;
        }
    }
}

/// Replaces `impl Trait`, which is not allowed inside a body, with `_`.
struct InferImplTrait;

impl VisitMut for InferImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::ImplTrait(_)) {
            *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token: Token![_](first_token(ty)) });
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}
