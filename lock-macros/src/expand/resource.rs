//! Generates the expression that builds the resource.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, Member};

use super::span::{at, first_token};
use crate::args::{Placeholder, ResourceSource, Segment, Template};

/// The type of what is locked, and an expression that yields it from bindings that are in scope.
pub(crate) fn expand(source: &ResourceSource, bindings: &[Ident], krate: &TokenStream) -> (TokenStream, TokenStream) {
    let site = Span::mixed_site();
    let string = quote_spanned!(site=> ::std::string::String);
    match source {
        ResourceSource::Template(template) => (string, from_template(template, bindings, krate)),
        ResourceSource::Expr(expr) => (string, from_expr(expr)),
        ResourceSource::Set(templates) => {
            let resources = templates.iter().map(|template| from_template(template, bindings, krate));
            (quote_spanned!(site=> ::std::vec::Vec<#string>), quote_spanned!(site=> ::std::vec![#(#resources),*]))
        }
    }
}

/// A block that yields the resource as a `String`, from bindings that are in scope.
fn from_template(template: &Template, bindings: &[Ident], krate: &TokenStream) -> TokenStream {
    let site = at(template.span);
    let pushes = template.segments.iter().map(|segment| match segment {
        Segment::Text(text) => quote_spanned!(site=> __resource.push_str(#text);),
        Segment::Placeholder(placeholder) => {
            let value = value(placeholder, bindings, template.span);
            quote_spanned!(site=> #krate::__private::push_encoded(&mut __resource, &#value);)
        }
    });
    quote_spanned! {site=>
        {
            let mut __resource = ::std::string::String::new();
            #(#pushes)*
            __resource
        }
    }
}

/// The value of `key = …` as a `String`.
fn from_expr(expr: &Expr) -> TokenStream {
    quote_spanned!(at(first_token(expr))=> ::core::convert::Into::<::std::string::String>::into(#expr))
}

/// `binding.field` with the hygiene of the user's code, but located at the template: if the value has the wrong type,
/// that is the place to report.
fn value(placeholder: &Placeholder, bindings: &[Ident], span: Span) -> TokenStream {
    let binding = bindings.iter().find(|binding| placeholder.refers_to(binding));
    // Validation has checked that the binding exists. If it did not, rustc would report the unknown name.
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
