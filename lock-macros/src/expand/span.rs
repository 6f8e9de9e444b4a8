//! Chooses the spans of generated code, so that rustc reports a mistake at the user's token that caused it.

use proc_macro2::{Group, Span, TokenStream};
use quote::ToTokens;
use syn::{ReturnType, Signature};

/// A span located at the user's code, but with the hygiene of the macro: errors in the generated code point there, and
/// its names cannot collide with the user's.
pub(super) fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The span of the first token. syn's `span()` covers just that token on stable toolchains and the whole expression on
/// nightly ones; this makes the errors the same on both.
pub(super) fn first_token(tokens: &impl ToTokens) -> Span {
    let tokens: TokenStream = tokens.to_token_stream();
    tokens.into_iter().next().map_or_else(Span::mixed_site, |token| token.span())
}

/// The span of the return type, or of the function's name if there is none.
pub(super) fn return_type(sig: &Signature) -> Span {
    match &sig.output {
        ReturnType::Default => sig.ident.span(),
        ReturnType::Type(_, ty) => first_token(ty),
    }
}

/// The user's body, to be nested in a generated block. Its braces get the macro's hygiene, or rustc would warn that
/// they are unnecessary.
pub(super) fn nested(body: &Group) -> Group {
    let mut nested = body.clone();
    nested.set_span(at(body.span()));
    nested
}
