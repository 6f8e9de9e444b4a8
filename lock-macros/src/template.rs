//! The template of a resource: text with placeholders in braces.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Error, Expr, Ident, Index, LitStr, Member};

use crate::report::Report;
use crate::value;

/// The longest name of a resource, in bytes. The engine checks the finished name; here only the text is known.
const MAX_LEN: usize = 512;

/// A parsed template.
pub(crate) struct Template {
    /// Where it stands: stable Rust can not point into a literal, so every placeholder is reported here.
    pub(crate) span: Span,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) enum Segment {
    Text(String),
    Value(Placeholder),
}

/// `{binding}` or `{binding.field.0}`.
pub(crate) struct Placeholder {
    /// The binding, without `r#`.
    pub(crate) binding: String,
    pub(crate) fields: Vec<Member>,
}

impl Template {
    pub(crate) fn parse(value: &Expr) -> syn::Result<Self> {
        let literal = value::string(
            value,
            "`resource` must be a string literal; for a name that is computed use `key = …` instead",
        )?;
        let mut report = Report::default();
        let text = literal.value();
        check_text(literal, &text, &mut report);
        let segments = segments(literal, &text, &mut report);
        let fixed: usize = segments.iter().map(|s| if let Segment::Text(text) = s { text.len() } else { 0 }).sum();
        if fixed > MAX_LEN {
            let message =
                format!("a resource name has at most {MAX_LEN} bytes, the text of this one alone has {fixed}");
            report.push(Error::new(literal.span(), message));
        }
        report.into_result()?;
        Ok(Self { span: literal.span(), segments })
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Text(_) => None,
            Segment::Value(placeholder) => Some(placeholder),
        })
    }
}

fn check_text(literal: &LitStr, text: &str, report: &mut Report) {
    if text.is_empty() {
        report.push(Error::new(literal.span(), "the resource is empty: name what the lock guards"));
    }
    if let Some(character) = text.chars().find(|c| c.is_control()) {
        let message = format!("a resource name has no control characters, this one has {character:?}");
        report.push(Error::new(literal.span(), message));
    }
}

fn segments(literal: &LitStr, text: &str, report: &mut Report) -> Vec<Segment> {
    let mut error = |message: String| report.push(Error::new(literal.span(), message));
    let mut segments = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        if !before.is_empty() {
            segments.push(Segment::Text(before.to_owned()));
        }
        if brace.starts_with("{{") || brace.starts_with("}}") {
            error(format!("`{}`: braces can not be escaped, a resource name has none", &brace[..2]));
            return segments;
        }
        let Some(inside) = brace.strip_prefix('{') else {
            error("unmatched `}`: no placeholder is open here".to_owned());
            return segments;
        };
        // A second opening brace means that the first was left open: what follows can not be trusted.
        let Some(end) = inside.find(['{', '}']).filter(|end| inside[*end..].starts_with('}')) else {
            error(format!("unclosed `{{` in `{brace}`: a placeholder ends with `}}`"));
            return segments;
        };
        match Placeholder::parse(&inside[..end], literal.span()) {
            Ok(placeholder) => segments.push(Segment::Value(placeholder)),
            Err(message) => error(message),
        }
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest.to_owned()));
    }
    segments
}

impl Placeholder {
    fn parse(inside: &str, span: Span) -> Result<Self, String> {
        if inside.is_empty() {
            return Err("empty placeholder `{}`: name a binding, as in `{sku}`".to_owned());
        }
        let no_path = || {
            format!(
                "`{{{inside}}}` is no placeholder: only a binding (`{{sku}}`) or its fields (`{{order.sku}}`, \
                 `{{pair.0}}`) can stand there; for anything else use `key = …` instead"
            )
        };
        let mut parts = inside.split('.');
        let binding = parts.next().and_then(|part| ident(part, span)).ok_or_else(no_path)?.unraw().to_string();
        let fields = parts.map(|part| member(part, span)).collect::<Option<_>>().ok_or_else(no_path)?;
        Ok(Self { binding, fields })
    }
}

/// An identifier; a keyword becomes a raw one, but for `self`, which is the receiver of a method.
fn ident(text: &str, span: Span) -> Option<Ident> {
    // Only what can be an identifier reaches the lexer: it would skip spaces and comments, and rustc's reports on its own
    // what it can not read.
    let bare = text.strip_prefix("r#").unwrap_or(text);
    let starts = bare.starts_with(|c: char| c == '_' || c.is_alphabetic());
    if !starts || !bare.chars().all(|c| c == '_' || c.is_ascii_digit() || c.is_alphabetic()) {
        return None;
    }
    match bare {
        "self" if text == bare => return Some(Ident::new("self", span)),
        "_" | "self" | "super" | "crate" | "Self" => return None,
        _ => {}
    }
    let ident = Ident::parse_any.parse_str(text).ok()?;
    let is_keyword = syn::parse_str::<Ident>(text).is_err();
    Some(if is_keyword { Ident::new_raw(&ident.to_string(), span) } else { with_span(ident, span) })
}

fn with_span(mut ident: Ident, span: Span) -> Ident {
    ident.set_span(span);
    ident
}

fn member(text: &str, span: Span) -> Option<Member> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(|index| Member::Unnamed(Index { index, span }));
    }
    ident(text, span).filter(|ident| ident != "self").map(Member::Named)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn parse(text: &str) -> syn::Result<Template> {
        let literal = LitStr::new(text, Span::call_site());
        Template::parse(&parse_quote!(#literal))
    }

    /// Text as it is, placeholders in braces: what was read, written out again.
    fn read(text: &str) -> String {
        let show = |segment: &Segment| match segment {
            Segment::Text(text) => text.clone(),
            Segment::Value(Placeholder { binding, fields }) => {
                let fields = fields.iter().map(|field| match field {
                    Member::Named(name) => format!(".{name}"),
                    Member::Unnamed(index) => format!(".{}", index.index),
                });
                format!("<{binding}{}>", fields.collect::<String>())
            }
        };
        parse(text).unwrap().segments.iter().map(show).collect()
    }

    fn messages(text: &str) -> Vec<String> {
        parse(text).err().unwrap().into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn reads_text_and_placeholders() {
        assert_eq!(read("nightly-report"), "nightly-report");
        assert_eq!(read("stock:{sku}"), "stock:<sku>");
        assert_eq!(read("{a}{b}/c"), "<a><b>/c");
        assert_eq!(read("größe:{größe}"), "größe:<größe>");
    }

    #[test]
    fn reads_fields() {
        assert_eq!(read("{order.sku}"), "<order.sku>");
        assert_eq!(read("{pair.0.1}"), "<pair.0.1>");
        assert_eq!(read("{self.name}"), "<self.name>");
        assert_eq!(read("{order.type}/{r#type}/{type}"), "<order.r#type>/<type>/<type>");
    }

    #[test]
    fn braces_must_balance() {
        assert_eq!(messages("stock:{sku"), ["unclosed `{` in `{sku`: a placeholder ends with `}`"]);
        assert_eq!(messages("{a{b}"), ["unclosed `{` in `{a{b}`: a placeholder ends with `}`"]);
        assert_eq!(messages("stock:sku}"), ["unmatched `}`: no placeholder is open here"]);
        assert_eq!(messages("{{sku}}"), ["`{{`: braces can not be escaped, a resource name has none"]);
        assert_eq!(messages("a}}"), ["`}}`: braces can not be escaped, a resource name has none"]);
    }

    #[test]
    fn a_placeholder_is_a_binding_or_a_field() {
        assert_eq!(messages("a:{}"), ["empty placeholder `{}`: name a binding, as in `{sku}`"]);
        for wrong in [
            "{ sku }",
            "{0}",
            "{a.}",
            "{.a}",
            "{a..b}",
            "{a b}",
            "{a()}",
            "{a:?}",
            "{x-tenant}",
            "{_}",
            "{Self.x}",
            "{a.self}",
            "{a.99999999999}",
            "{/**/a}",
            "{a::b}",
            "{\"a\"}",
            "{*a}",
            "{a²}",
            "{r#self}",
            "{1a}",
        ] {
            let [message] = &messages(wrong)[..] else { panic!("{wrong}: one message expected") };
            assert!(message.starts_with(&format!("`{wrong}` is no placeholder")), "{message}");
        }
    }

    #[test]
    fn every_wrong_placeholder_is_reported() {
        assert_eq!(messages("{}:{a b}:{}").len(), 3);
    }

    #[test]
    fn what_the_engine_would_refuse_is_refused_here() {
        assert_eq!(messages(""), ["the resource is empty: name what the lock guards"]);
        assert_eq!(messages("a\n{b}"), ["a resource name has no control characters, this one has '\\n'"]);
        let longest = format!("{}{{sku}}", "x".repeat(512));
        assert!(parse(&longest).is_ok());
        let message = "a resource name has at most 512 bytes, the text of this one alone has 513";
        assert_eq!(messages(&format!("x{longest}")), [message]);
    }

    #[test]
    fn a_template_is_a_literal() {
        for wrong in [parse_quote!(NAME), parse_quote!(42), parse_quote!(concat!("a", "b")), parse_quote!(["a", "b"])] {
            let message = Template::parse(&wrong).err().unwrap().to_string();
            assert!(message.starts_with("`resource` must be a string literal"), "{message}");
        }
    }
}
