//! Parses the function below the attribute.

use proc_macro2::{Delimiter, Group};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, FnArg, PatType, Receiver, Signature, Token, Visibility, token};

/// A function or method with a body.
///
/// The body stays a token tree. It is never parsed here, so that rustc alone reports what is wrong in it.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    /// `#![…]` at the start of the body.
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) sig: Signature,
    /// With its braces.
    pub(crate) body: Group,
}

impl Function {
    /// The parameters, without `self`.
    pub(crate) fn params(&self) -> impl Iterator<Item = &PatType> {
        self.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        })
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        let vis = input.parse()?;
        let defaultness =
            if input.peek(Token![default]) && !input.peek2(Token![!]) { Some(input.parse()?) } else { None };
        if !starts_function(input) {
            return Err(input.error("`#[distributed_lock]` can only be applied to an `async fn`"));
        }
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let message = "`#[distributed_lock]` needs a function body to guard: apply it to the implementation";
            return Err(Error::new(sig.ident.span(), message));
        }
        let content;
        let brace = syn::braced!(content in input);
        let inner_attrs = Attribute::parse_inner(&content)?;
        let mut body = Group::new(Delimiter::Brace, content.parse()?);
        body.set_span(brace.span.join());
        Ok(Self { attrs, inner_attrs, vis, defaultness, sig, body })
    }
}

fn starts_function(input: ParseStream<'_>) -> bool {
    let fork = input.fork();
    let _ = fork.parse::<Option<Token![const]>>();
    let _ = fork.parse::<Option<Token![async]>>();
    let _ = fork.parse::<Option<Token![unsafe]>>();
    let _ = fork.parse::<Option<syn::Abi>>();
    // Without the second check `fn(u8)`, a type, would pass for a function.
    fork.peek(Token![fn]) && !fork.peek2(token::Paren)
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;
    use syn::AttrStyle;

    use super::*;

    fn message(tokens: TokenStream) -> String {
        syn::parse2::<Function>(tokens).err().unwrap().to_string()
    }

    #[test]
    fn the_body_may_be_anything_that_has_balanced_braces() {
        let function: Function = syn::parse2(quote! {
            /// Docs.
            pub(crate) async fn f<'a, T, const N: usize>(&'a self, Path(a): Path<T>, b: u8) -> u8 where T: Send {
                #![allow(unused)]
                this is { not } rust
            }
        })
        .unwrap();
        assert_eq!(function.attrs.len(), 1);
        assert_eq!(function.inner_attrs.len(), 1);
        assert!(matches!(function.inner_attrs[0].style, AttrStyle::Inner(_)));
        assert_eq!(function.params().count(), 2);
        assert!(function.receiver().is_some());
        assert_eq!(function.body.to_string(), "{ this is { not } rust }");
    }

    #[test]
    fn anything_but_a_function_is_rejected() {
        let message = |tokens| self::message(tokens);
        for wrong in [
            quote!(
                struct S;
            ),
            quote!(impl S {}),
            quote!(
                mod m {}
            ),
            quote!(
                const F: fn(u8) = f;
            ),
            quote!(),
        ] {
            assert!(message(wrong.clone()).ends_with("can only be applied to an `async fn`"), "{wrong}");
        }
        assert!(
            message(quote!(
                async fn f(&self);
            ))
            .contains("needs a function body")
        );
    }
}
