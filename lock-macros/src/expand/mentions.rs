use proc_macro2::{Ident, TokenStream, TokenTree};

/// Whether the tokens contain this name, or keyword.
pub(super) fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(_) | TokenTree::Punct(_) => false,
    })
}
