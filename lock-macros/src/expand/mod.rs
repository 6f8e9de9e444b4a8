//! Writes the function that takes the lock.

mod attributes;
mod fallback;
mod function;
mod handler;
mod key;
mod policy;

use proc_macro2::{Group, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{ReturnType, Signature};

use crate::args::Args;
use crate::input::Function;
use crate::report::Report;
use crate::validate;

/// Parses, checks, and expands; or reports what is wrong.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut report = Report::default();
    let args = Args::parse(arguments, &mut report);
    let understood = report.is_empty();
    let Some(function) = report.take(syn::parse2::<Function>(item.clone())) else {
        // What is no function at all is left as it is: dropping it would only add errors about a missing item.
        return report.to_compile_error().into_iter().chain(item).collect();
    };
    validate::check(&function, &args, understood, &mut report);
    let expanded = match (&args.key, report.is_empty()) {
        (Some(key), true) => match &args.manager {
            Some(manager) => function::expand(&function, &args, key, manager),
            None => handler::expand(&function, &args, key),
        },
        _ => fallback::expand(&function),
    };
    let errors = report.to_compile_error();
    quote_spanned!(Span::mixed_site()=> #errors #expanded)
}

/// The position of the user's code with names of our own: what rustc says of generated code points there, and no name
/// is taken for one of the user's.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The position of the first token. (syn's `span()` is that on stable toolchains and the whole on others: what rustc
/// points at is to be the same on each.)
fn start(tokens: &impl ToTokens) -> Span {
    tokens.to_token_stream().into_iter().next().map_or_else(Span::mixed_site, |token| token.span())
}

/// The position of the return type, or of the name where there is none.
fn output(sig: &Signature) -> Span {
    match &sig.output {
        ReturnType::Default => sig.ident.span(),
        ReturnType::Type(_, ty) => start(ty),
    }
}

/// The user's body as a block in one of ours. Its braces are the macro's, or rustc would find them superfluous.
fn nested(body: &Group) -> Group {
    let mut nested = body.clone();
    nested.set_span(at(body.span()));
    nested
}

/// The crate that the generated code calls.
fn krate(args: &Args, span: Span) -> TokenStream {
    args.krate.clone().unwrap_or_else(|| quote_spanned!(at(span)=> ::lock_axum))
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{File, Item, ItemFn};

    use super::*;

    /// What is written must parse, whatever was read.
    fn items(arguments: TokenStream, item: TokenStream) -> Vec<Item> {
        let expanded = expand(arguments, item);
        syn::parse2::<File>(expanded.clone()).unwrap_or_else(|error| panic!("{error}: {expanded}")).items
    }

    fn function(arguments: TokenStream, item: TokenStream) -> ItemFn {
        let items = items(arguments, item);
        let [Item::Fn(function)] = &items[..] else { panic!("one function expected") };
        function.clone()
    }

    #[test]
    fn a_handler_keeps_its_face_and_gets_the_manager() {
        let outer = function(
            quote!(resource = "stock:{sku}"),
            quote! {
                /// Docs.
                #[instrument]
                #[debug_handler]
                pub(crate) async fn deduct<T: Stock, const N: usize>(
                    Path(mut sku): Path<String>, lease: Lease, State(stock): State<T>,
                ) -> impl IntoResponse where T: Clone {}
            },
        );
        let Signature { ident, generics, inputs, .. } = &outer.sig;
        let face = quote!(#ident #generics (#inputs)).to_string();
        let expected = quote! {
            deduct<T: Stock, const N: usize>(
                __manager: ::lock_axum::__private::Manager, __arg0: Path<String>, __arg2: State<T>,
            )
        };
        assert_eq!(face, expected.to_string());
        assert!(generics.where_clause.is_some());
        assert_eq!(outer.attrs.len(), 3, "docs, debug_handler and a lint level");

        let syn::Stmt::Item(Item::Fn(inner)) = &outer.block.stmts[0] else { panic!("the written function expected") };
        let inputs = &inner.sig.inputs;
        let written = quote!(Path(mut sku): Path<String>, lease: Lease, State(stock): State<T>,);
        assert_eq!(quote!(#inputs).to_string(), written.to_string());
        assert_eq!(inner.attrs.len(), 1, "instrument");
    }

    #[test]
    fn a_function_keeps_its_signature() {
        let written = quote! {
            #[instrument]
            pub async fn take<'a, T>(&'a self, Order { mut sku, .. }: Order, lease: Lease) -> Result<&'a T, E> where T: 'a
        };
        let guarded = function(quote!(resource = "{sku}", manager = self.locks), quote!(#written { body }));
        let (attrs, vis, sig) = (&guarded.attrs, &guarded.vis, &guarded.sig);
        assert_eq!(quote!(#(#attrs)* #vis #sig).to_string(), written.to_string());
    }

    #[test]
    fn misuse_never_panics() {
        let arguments = [
            quote!(),
            quote!(,),
            quote!(=),
            quote!(resource),
            quote!(resource = ),
            quote!(resource = "a" "b"),
            quote!(resource = "{a.0.b.}{}{", key),
            quote!((resource = "a")),
            quote!(resource = "a", manager = , ttl = -1, wait = 99999999999999999999, crate = <T as X>::y),
            quote!(resource = "{a}", manager = self.locks, busy_status = 409u64, on_error = a::b::<C>),
            quote!(resource = "{self.a}", key = |x| { x }, crate = crate, crate = crate),
            quote!(key = if a { b } else { c }, renew = !true, on_lost = b"cancel"),
            quote!(r#resource = "a", r#ttl = a, #![x]),
        ];
        let functions = [
            quote!(
                async fn f() {}
            ),
            quote!(
                fn f() -> Pin<Box<dyn Future>> {}
            ),
            quote!(
                const unsafe extern "C" fn f(a: u8, ...) -> impl Future<Output = ()> {}
            ),
            quote!(
                async fn f(&self, a: impl X, (b, c): (u8, u8), [d, ..]: [u8; 2]) -> Result<impl Y, Z> {
                    #![allow(x)]
                }
            ),
            quote!(
                pub async fn f<'a: 'b, 'b, const N: usize, T: ?Sized>(self: &'a Arc<Self>, Lease: Lease)
                where
                    Self: 'a,
                {
                }
            ),
            quote!(
                #[distributed_lock]
                async fn f(a!(): b!(), Extension(a): Extension<Lease>, _: Extension<Lease, B>) {}
            ),
        ];
        for arguments in &arguments {
            for function in &functions {
                assert!(!items(arguments.clone(), function.clone()).is_empty());
            }
        }
        for item in [
            quote!(),
            quote!(
                struct S;
            ),
            quote!(impl S {}),
            quote!(
                async fn f();
            ),
            quote!(|| {}),
            quote!(async),
        ] {
            for arguments in &arguments {
                assert!(expand(arguments.clone(), item.clone()).to_string().contains("compile_error"));
            }
        }
    }

    #[test]
    fn what_could_not_be_guarded_never_runs() {
        let items = items(
            quote!(resource = "{sku}"),
            quote!(
                async fn f() -> u8 {
                    body()
                }
            ),
        );
        let [Item::Macro(_), Item::Fn(function)] = &items[..] else { panic!("an error and a function expected") };
        let first = &function.block.stmts[0];
        assert_eq!(
            quote!(#first).to_string(),
            quote!(if true {
                loop {}
            })
            .to_string()
        );
    }
}
