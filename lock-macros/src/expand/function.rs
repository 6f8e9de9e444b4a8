//! A function or method that names its manager: the signature stays, the body is wrapped.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ReturnType, Token, Type, TypeInfer};

use super::{at, key, krate, nested, output, policy, start};
use crate::args::{Args, Key};
use crate::bindings;
use crate::input::Function;
use crate::validate::is_named;

/// One item, since no second one may stand in a trait or its implementation.
pub(crate) fn expand(function: &Function, args: &Args, key: &Key, manager: &Expr) -> TokenStream {
    let Function { attrs, inner_attrs, vis, defaultness, sig, body } = function;
    let body = nested(body);
    let site = Span::mixed_site();
    let krate = krate(args, site);
    let manager = quote_spanned! {at(start(manager))=>
        <#krate::LockManager as ::core::clone::Clone>::clone(&(#manager))
    };
    let kept = kept(function, key);
    let key = match key {
        Key::Template(template) => key::from_template(template, &names(function), &krate),
        Key::Expr(expr) => key::from_expr(expr),
    };
    let policy = policy::expand(args);
    let typed = typed(&sig.output);
    // Located at the return type: what does not fit there is not a `Result`, or not with a fitting error.
    let guarded = {
        let krate = self::krate(args, output(sig));
        quote_spanned! {at(output(sig))=>
            #krate::__private::guard_call(__manager, __key, #policy, async move {
                #(#[allow(clippy::used_underscore_binding)] let _ = &#kept;)*
                #typed
                #body
            }).await
        }
    };

    quote_spanned! {site=>
        #(#attrs)*
        #vis #defaultness #sig {
            #(#inner_attrs)*
            let __manager = #manager;
            let __key: ::std::string::String = #key;
            #guarded
        }
    }
}

/// What a placeholder may name.
fn names(function: &Function) -> Vec<Ident> {
    let mut names: Vec<_> = function.params().flat_map(|param| bindings::names(&param.pat)).collect();
    names.extend(function.receiver().map(|receiver| Ident::new("self", receiver.self_token.span)));
    names
}

/// What the body may not name, so that it would not go into it, and would be dropped when the lock is released: the receiver,
/// what a template names, and what is named so that rustc does not warn of it. A warning of any other is to stay. An expression
/// may have moved what it names.
fn kept(function: &Function, key: &Key) -> Vec<Ident> {
    let unnamed = |name: &Ident| name == "self" || name.to_string().starts_with('_');
    let kept = |name: &Ident| match key {
        Key::Template(template) => {
            unnamed(name) || template.placeholders().any(|placeholder| is_named(name, &placeholder.binding))
        }
        Key::Expr(expr) => unnamed(name) && !mentions(expr.to_token_stream(), name),
    };
    names(function).into_iter().filter(kept).collect()
}

fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(_) | TokenTree::Punct(_) => false,
    })
}

/// A `return` that is never reached, at the start of the body: an `async` block has no place for its type, and without it
/// `?` would not know which error to convert into, and a wrong type would be reported far from the expression that has it.
///
/// It comes out of an `Option`, not from a diverging expression, since that would make all that follows unreachable code.
fn typed(output: &ReturnType) -> TokenStream {
    let ReturnType::Type(_, ty) = output else { return TokenStream::new() };
    let mut ty = ty.clone();
    InferImplTrait.visit_type_mut(&mut ty);
    quote_spanned! {at(start(&ty))=>
        if let ::core::option::Option::Some(__output) = ::core::option::Option::None::<#ty> {
            return __output;
        }
    }
}

/// Replaces `impl Trait`, which can not be written in a body, by `_`.
struct InferImplTrait;

impl VisitMut for InferImplTrait {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::ImplTrait(_)) {
            *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token: Token![_](start(ty)) });
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}
