//! Parses the template in `resource = "…"`: text with placeholders in braces.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Error, Expr, Ident, Index, LitStr, Member};

use super::value;
use crate::diagnostics::Diagnostics;
use crate::limits::MAX_RESOURCE_LEN;

/// A parsed resource template.
pub(crate) struct Template {
    /// The span of the whole literal. Stable Rust cannot point into a literal, so errors about a placeholder use it,
    /// too.
    pub(crate) span: Span,
    /// As it was written.
    pub(crate) text: String,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) enum Segment {
    Text(String),
    Placeholder(Placeholder),
}

/// `{binding}`, or a field of one: `{binding.field.0}`.
pub(crate) struct Placeholder {
    /// The name of the binding, without `r#`.
    pub(crate) binding: String,
    pub(crate) fields: Vec<Member>,
}

impl Template {
    pub(crate) fn parse(value: &Expr) -> syn::Result<Self> {
        Self::parse_or(value, "`resource` must be a string literal: use `key = …` for a computed resource")
    }

    /// An element of a list. There is no `key` for several.
    pub(crate) fn parse_in_list(value: &Expr) -> syn::Result<Self> {
        let message = "`resource` must be a string literal, also in a list: put what is computed into a parameter and name that, as in \
                       `\"stock:{sku}\"`, or call `lock_all` of the manager";
        Self::parse_or(value, message)
    }

    fn parse_or(value: &Expr, not_literal: &str) -> syn::Result<Self> {
        let literal = value::string(value, not_literal)?;
        let mut diagnostics = Diagnostics::default();
        let text = literal.value();
        check_text(literal, &text, &mut diagnostics);
        let segments = segments(literal, &text, &mut diagnostics);
        let text_len: usize = segments.iter().map(|s| if let Segment::Text(text) = s { text.len() } else { 0 }).sum();
        if text_len > MAX_RESOURCE_LEN {
            let message = format!(
                "a resource can have at most {MAX_RESOURCE_LEN} bytes, but the text of this template has {text_len}"
            );
            diagnostics.push(Error::new(literal.span(), message));
        }
        diagnostics.into_result()?;
        Ok(Self { span: literal.span(), text, segments })
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Text(_) => None,
            Segment::Placeholder(placeholder) => Some(placeholder),
        })
    }
}

/// A placeholder in the syntax of others: what was written, and the name in it.
pub(crate) struct Foreign {
    pub(crate) written: String,
    pub(crate) name: String,
}

impl Template {
    /// What may be meant as placeholders: `/:sku` and `*sku` as in the routes of others, and `${sku}` as in the shell. Only a parameter of
    /// that name tells them from text.
    pub(crate) fn foreign_placeholders(&self) -> impl Iterator<Item = Foreign> {
        let mut foreign = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let Segment::Text(text) = segment else { continue };
            if text.ends_with('$')
                && let Some(Segment::Placeholder(Placeholder { binding, .. })) = self.segments.get(index + 1)
            {
                foreign.push(Foreign { written: format!("${{{binding}}}"), name: binding.clone() });
            }
            // A name ends where a placeholder begins only if there is text between them.
            for (at, sigil) in text.match_indices([':', '*']) {
                let before = text[..at].chars().next_back();
                let begins = match before {
                    None => index == 0,
                    Some(before) => before == '/' || sigil == "*" && before == ':',
                };
                let rest = &text[at + 1..];
                let end = rest.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(rest.len());
                if begins && end > 0 {
                    foreign.push(Foreign { written: format!("{sigil}{}", &rest[..end]), name: rest[..end].to_owned() });
                }
            }
        }
        foreign.into_iter()
    }
}

fn check_text(literal: &LitStr, text: &str, diagnostics: &mut Diagnostics) {
    if text.is_empty() {
        diagnostics.push(Error::new(literal.span(), "`resource` must not be empty"));
    }
    if let Some(character) = text.chars().find(|c| c.is_control()) {
        let message = format!("`resource` must not contain control characters, found {character:?}");
        diagnostics.push(Error::new(literal.span(), message));
    }
}

fn segments(literal: &LitStr, text: &str, diagnostics: &mut Diagnostics) -> Vec<Segment> {
    let mut error = |message: String| diagnostics.push(Error::new(literal.span(), message));
    let mut segments = Vec::new();
    let mut previous = None;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        if !before.is_empty() {
            segments.push(Segment::Text(before.to_owned()));
        }
        if brace.starts_with("{{") || brace.starts_with("}}") {
            error(format!("`{}`: braces cannot be escaped, because a resource cannot contain them", &brace[..2]));
            return segments;
        }
        let Some(inside) = brace.strip_prefix('{') else {
            error("unbalanced brace: `}` without an opening `{`".to_owned());
            return segments;
        };
        // A second opening brace means that the first one was never closed. Where the next placeholder ends is then
        // unclear, so the rest is not parsed.
        let Some(end) = inside.find(['{', '}']).filter(|end| inside[*end..].starts_with('}')) else {
            error(format!("unbalanced brace: `{{` is never closed in `{brace}`"));
            return segments;
        };
        let name = &inside[..end];
        if let Some(previous) = previous.filter(|_| !separates(before)) {
            error(format!(
                "nothing separates the value of `{{{previous}}}` from that of `{{{name}}}`: put a character between them \
                 that is encoded in values, such as `:` or `/`, as in `{{{previous}}}:{{{name}}}`"
            ));
        }
        previous = Some(name);
        match Placeholder::parse(name, literal.span()) {
            Ok(placeholder) => segments.push(Segment::Placeholder(placeholder)),
            Err(message) => error(message),
        }
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest.to_owned()));
    }
    segments
}

/// Whether a text between two placeholders has a character that no encoded value contains, as `LockLayer` requires it.
/// `%` is not one: it begins what is encoded.
fn separates(text: &str) -> bool {
    text.chars().any(|c| !(c.is_ascii_alphanumeric() || "-._~%".contains(c)))
}

impl Placeholder {
    /// Whether this placeholder means the binding: `{type}` means `r#type`.
    pub(crate) fn refers_to(&self, binding: &Ident) -> bool {
        binding.unraw() == self.binding
    }

    fn parse(inside: &str, span: Span) -> Result<Self, String> {
        if inside.is_empty() {
            return Err("empty placeholder `{}`: name a binding, as in `{sku}`".to_owned());
        }
        let invalid = || {
            if let Some((place @ ("header" | "query"), name)) = inside.split_once('.') {
                return of_the_layer(inside, place, name);
            }
            if inside.ends_with(')') {
                return format!(
                    "invalid placeholder `{{{inside}}}`: a placeholder calls nothing; write \
                     `key = format!(\"…:{{}}\", lock_axum::encode_value({inside}))`"
                );
            }
            format!(
                "invalid placeholder `{{{inside}}}`: expected a binding (`{{sku}}`) or a field of one (`{{order.sku}}`, \
                 `{{pair.0}}`); use `key = …` for anything else"
            )
        };
        let mut parts = inside.split('.');
        let binding = parts.next().and_then(|part| ident(part, span)).ok_or_else(invalid)?.unraw().to_string();
        let fields = parts.map(|part| member(part, span)).collect::<Option<_>>().ok_or_else(invalid)?;
        Ok(Self { binding, fields })
    }
}

/// What to say of a placeholder that `LockLayer` would understand.
pub(crate) fn of_the_layer(inside: &str, place: &str, name: &str) -> String {
    let extractor = if place == "query" { "`Query(…)`" } else { "`HeaderMap`" };
    format!(
        "`{{{inside}}}` is a placeholder of `LockLayer`: take `{name}` as a parameter, through {extractor} for example, and name that, or \
         build the resource with `key = …`"
    )
}

/// Parses an identifier. A keyword becomes a raw identifier, except `self`, which means the receiver of a method.
fn ident(text: &str, span: Span) -> Option<Ident> {
    // Checked before it reaches the lexer, which would skip spaces and comments; and rustc's lexer reports what it
    // cannot read on its own, which would add a second error.
    let bare = text.strip_prefix("r#").unwrap_or(text);
    let valid_start = bare.starts_with(|c: char| c == '_' || c.is_alphabetic());
    if !valid_start || !bare.chars().all(|c| c == '_' || c.is_ascii_digit() || c.is_alphabetic()) {
        return None;
    }
    match bare {
        "self" if text == bare => return Some(Ident::new("self", span)),
        "_" | "self" | "super" | "crate" | "Self" => return None,
        _ => {}
    }
    let mut ident = Ident::parse_any.parse_str(text).ok()?;
    let is_keyword = syn::parse_str::<Ident>(text).is_err();
    if is_keyword {
        ident = Ident::new_raw(&ident.to_string(), span);
    }
    ident.set_span(span);
    Some(ident)
}

fn member(text: &str, span: Span) -> Option<Member> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(|index| Member::Unnamed(Index { index, span }));
    }
    ident(text, span).filter(|ident| ident != "self").map(Member::Named)
}

#[cfg(test)]
mod tests;
