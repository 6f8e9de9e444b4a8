//! The statements that build the name of the resource.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, Member};

use super::{at, start};
use crate::template::{Placeholder, Segment, Template};
use crate::validate::is_named;

/// A block that yields the name, from bindings that are in scope.
pub(crate) fn from_template(template: &Template, bindings: &[Ident], krate: &TokenStream) -> TokenStream {
    let site = at(template.span);
    let pushes = template.segments.iter().map(|segment| match segment {
        Segment::Text(text) => quote_spanned!(site=> __key.push_str(#text);),
        Segment::Value(placeholder) => {
            let value = value(placeholder, bindings, template.span);
            quote_spanned!(site=> #krate::__private::push_value(&mut __key, &#value);)
        }
    });
    quote_spanned! {site=>
        {
            let mut __key = ::std::string::String::new();
            #(#pushes)*
            __key
        }
    }
}

/// The value of `key = …` as a `String`.
pub(crate) fn from_expr(expr: &Expr) -> TokenStream {
    quote_spanned!(at(start(expr))=> ::core::convert::Into::<::std::string::String>::into(#expr))
}

/// `binding.field` as the user's own code would say it there, but located at the template: an error about its type is an
/// error of the template.
fn value(placeholder: &Placeholder, bindings: &[Ident], span: Span) -> TokenStream {
    let binding = bindings.iter().find(|binding| is_named(binding, &placeholder.binding));
    // Without the binding, which validation excludes, rustc reports the unknown name.
    let mut binding = binding.cloned().unwrap_or_else(|| Ident::new(&placeholder.binding, span));
    let span = binding.span().located_at(span);
    binding.set_span(span);
    let fields = placeholder.fields.iter().map(|field| {
        let mut field = field.clone();
        match &mut field {
            Member::Named(name) => name.set_span(span),
            Member::Unnamed(index) => index.span = span,
        }
        field
    });
    quote_spanned!(span=> #binding #(.#fields)*)
}
