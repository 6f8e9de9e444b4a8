//! What stands in for a function that could not be guarded.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Token;

use super::nested;
use crate::input::Function;
use crate::validate::returns_future;

/// The function as it was written, so that its callers and its imports cause no errors of their own; but its body is
/// never reached. The `compile_error!` beside it stops the build anyway: this holds even where tools go on.
pub(crate) fn expand(function: &Function) -> TokenStream {
    let Function { attrs, inner_attrs, vis, defaultness, sig, body } = function;
    let body = nested(body);
    let mut sig = sig.clone();
    // Where `async` was forgotten, the missing word is reported once, and not again at every `.await`.
    if sig.asyncness.is_none() && !returns_future(&sig.output) {
        sig.constness = None;
        sig.asyncness = Some(Token![async](Span::mixed_site()));
    }
    quote_spanned! {Span::mixed_site()=>
        #(#attrs)*
        #vis #defaultness #sig {
            #(#inner_attrs)*
            // A condition, for the body to count as reachable: no lint about it, and types are inferred from it.
            if true {
                loop {}
            }
            #body
        }
    }
}
