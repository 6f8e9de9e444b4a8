//! Runs the stages: parses the arguments, parses the function, validates both, expands.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use crate::args::Args;
use crate::diagnostics::Diagnostics;
use crate::function::Function;
use crate::{expand, validate};

/// The expansion of `#[distributed_lock(arguments)] item`, or a `compile_error!` for each mistake.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let args = Args::parse(arguments, &mut diagnostics);
    let Some(function) = diagnostics.handle(syn::parse2::<Function>(item.clone())) else {
        // An item that is not a function stays as it is: without it, its users would cause further errors.
        return diagnostics.to_compile_error().into_iter().chain(item).collect();
    };
    validate::check(&function, &args, &mut diagnostics);
    let expanded = match (&args.resource, diagnostics.is_empty()) {
        (Some(resource), true) => match &args.manager {
            Some(manager) => expand::expand_function(&function, &args, resource, manager),
            None => expand::expand_handler(&function, &args, resource),
        },
        _ => expand::expand_fallback(&function, &args),
    };
    let errors = diagnostics.to_compile_error();
    quote_spanned!(Span::mixed_site()=> #errors #expanded)
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{File, Item, ItemFn, Signature};

    use super::*;

    /// The items in the expansion, which must always parse.
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
    fn a_handler_keeps_its_signature_and_gets_the_manager() {
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
        let signature = quote!(#ident #generics (#inputs)).to_string();
        let expected = quote! {
            deduct<T: Stock, const N: usize>(
                (__manager,): (::lock_axum::__private::Manager,), __arg0: Path<String>, __arg2: State<T>,
            )
        };
        assert_eq!(signature, expected.to_string());
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
            quote!(key = if a { b } else { c }, state, renew = !true, on_lost = b"cancel"),
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

    /// The function next to the error.
    fn fallback(arguments: TokenStream, item: TokenStream) -> ItemFn {
        let items = items(arguments, item);
        let [Item::Macro(_), Item::Fn(function)] = &items[..] else { panic!("an error and a function expected") };
        function.clone()
    }

    #[test]
    fn a_function_that_could_not_be_guarded_never_runs() {
        let never = quote!(if true {
            loop {}
        })
        .to_string();
        let function = fallback(
            quote!(resource = "{sku}", manager = locks),
            quote!(
                async fn f(a: A) -> Result<u8, E> {
                    body()
                }
            ),
        );
        let first = &function.block.stmts[0];
        assert_eq!(quote!(#first).to_string(), never);

        let handler = fallback(
            quote!(resource = "{sku}"),
            quote!(
                async fn f(a: A) -> u8 {
                    body()
                }
            ),
        );
        let [syn::Stmt::Item(Item::Fn(inner))] = &handler.block.stmts[..] else { panic!("one function expected") };
        let first = &inner.block.stmts[0];
        assert_eq!(quote!(#first).to_string(), never);
    }

    #[test]
    fn a_handler_that_could_not_be_guarded_fits_every_route() {
        let handler = fallback(
            quote!(resource = "a"),
            quote!(
                #[instrument]
                #[debug_handler]
                pub async unsafe fn f<T: Stock>(Json(order): Json<T>, lease: Lease) -> Rc<T> {}
            ),
        );
        let (vis, sig) = (&handler.vis, &handler.sig);
        assert_eq!(quote!(#vis #sig).to_string(), quote!(pub async fn f<T: Stock>()).to_string());
        assert_eq!(handler.attrs.len(), 1, "debug_handler");
        // A guarded function keeps its parameters, even if the value of `manager` is what is wrong.
        let function = fallback(
            quote!(resource = "a", manager),
            quote!(
                async fn f(a: A) -> u8 {}
            ),
        );
        assert_eq!(function.sig.inputs.len(), 1);
    }
}
