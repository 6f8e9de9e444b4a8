use syn::parse_quote;

use super::*;

fn parse(text: &str) -> syn::Result<Template> {
    let literal = LitStr::new(text, Span::call_site());
    Template::parse(&parse_quote!(#literal))
}

/// Parses a template and renders it again, with placeholders in angle brackets.
fn roundtrip(text: &str) -> String {
    let show = |segment: &Segment| match segment {
        Segment::Text(text) => text.clone(),
        Segment::Placeholder(Placeholder { binding, fields }) => {
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
fn parses_text_and_placeholders() {
    assert_eq!(roundtrip("nightly-report"), "nightly-report");
    assert_eq!(roundtrip("stock:{sku}"), "stock:<sku>");
    assert_eq!(roundtrip("{a}:{b}/c"), "<a>:<b>/c");
    assert_eq!(roundtrip("größe:{größe}"), "größe:<größe>");
}

#[test]
fn parses_fields() {
    assert_eq!(roundtrip("{order.sku}"), "<order.sku>");
    assert_eq!(roundtrip("{pair.0.1}"), "<pair.0.1>");
    assert_eq!(roundtrip("{self.name}"), "<self.name>");
    assert_eq!(roundtrip("{order.type}/{r#type}/{type}"), "<order.r#type>/<type>/<type>");
}

#[test]
fn braces_must_balance() {
    assert_eq!(messages("stock:{sku"), ["unbalanced brace: `{` is never closed in `{sku`"]);
    assert_eq!(messages("{a{b}"), ["unbalanced brace: `{` is never closed in `{a{b}`"]);
    assert_eq!(messages("stock:sku}"), ["unbalanced brace: `}` without an opening `{`"]);
    assert_eq!(messages("{{sku}}"), ["`{{`: braces cannot be escaped, because a resource cannot contain them"]);
    assert_eq!(messages("a}}"), ["`}}`: braces cannot be escaped, because a resource cannot contain them"]);
}

#[test]
fn placeholders_are_separated() {
    let message = "nothing separates the value of `{a}` from that of `{b.0}`: put a character between them that is \
                   encoded in values, such as `:` or `/`, as in `{a}:{b.0}`";
    for wrong in ["", "-", "x.y_z~0", "%", "%3A"] {
        assert_eq!(messages(&format!("stock:{{a}}{wrong}{{b.0}}:end")), [message], "{wrong}");
    }
    assert_eq!(messages("{a}{b}-{c}").len(), 2);
    for right in [":", "/", "-x:", ":%", " ", "@x", "é"] {
        assert!(parse(&format!("{{a}}{right}{{b}}")).is_ok(), "{right}");
    }
    assert!(parse("x{a}y").is_ok(), "a single one needs no separator");
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
        assert!(message.starts_with(&format!("invalid placeholder `{wrong}`")), "{message}");
    }
}

#[test]
fn every_invalid_placeholder_is_reported() {
    assert_eq!(messages("{}:{a b}:{}").len(), 3);
}

#[test]
fn a_resource_that_the_engine_rejects_is_rejected_here() {
    assert_eq!(messages(""), ["`resource` must not be empty"]);
    assert_eq!(messages("a\n{b}"), ["`resource` must not contain control characters, found '\\n'"]);
    let longest = format!("{}{{sku}}", "x".repeat(512));
    assert!(parse(&longest).is_ok());
    let message = "a resource can have at most 512 bytes, but the text of this template has 513";
    assert_eq!(messages(&format!("x{longest}")), [message]);
}

#[test]
fn a_template_is_a_literal() {
    for wrong in [parse_quote!(NAME), parse_quote!(42), parse_quote!(concat!("a", "b")), parse_quote!(["a", "b"])] {
        let message = Template::parse(&wrong).err().unwrap().to_string();
        assert!(message.starts_with("`resource` must be a string literal"), "{message}");
    }
}
