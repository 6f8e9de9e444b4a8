use std::collections::HashMap;

use axum::http::Request;

use super::*;

async fn render(template: &str, request: http::request::Builder) -> Result<String, String> {
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    Template::parse(template).unwrap().render(&mut parts).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn headers_and_query_values_replace_placeholders() {
    let request = || Request::get("/?q=a%20b&q2=%3A").header("x-tenant", "t:1");
    assert_eq!(render("export:{header.x-tenant}", request()).await.unwrap(), "export:t%3A1");
    assert_eq!(render("{query.q}/{query.q2}", request()).await.unwrap(), "a%20b/%3A");
    assert_eq!(render("nightly", request()).await.unwrap(), "nightly");
}

#[tokio::test]
async fn the_host_of_http_2_is_in_the_uri() {
    let http_1 = Request::get("/").header("host", "a.example:80");
    assert_eq!(render("tenant:{header.host}", http_1).await.unwrap(), "tenant:a.example%3A80");
    assert_eq!(render("tenant:{header.host}", Request::get("http://b.example/")).await.unwrap(), "tenant:b.example");
    let error = render("tenant:{header.host}", Request::get("/")).await.unwrap_err();
    assert_eq!(error, "the header host is missing");
}

#[tokio::test]
async fn a_missing_or_duplicate_value_is_an_error_of_the_client() {
    let error = render("x:{header.x-tenant}", Request::get("/")).await.unwrap_err();
    assert_eq!(error, "the header x-tenant is missing");
    let error = render("x:{query.q}", Request::get("/?q=1&q=2")).await.unwrap_err();
    assert_eq!(error, "the query parameter q is given more than once");
}

#[tokio::test]
async fn a_parameter_that_the_route_does_not_have_is_an_error_of_the_service() {
    let error = render("stock:{sku}", Request::get("/")).await.unwrap_err();
    assert_eq!(error, "the route has no path parameter \"sku\"");
}

#[test]
fn a_placeholder_in_the_syntax_of_others_is_refused() {
    for (template, written) in [
        ("stock/:sku", ":sku"),
        (":sku", ":sku"),
        ("stock/:sku/{warehouse}", ":sku"),
        ("stock:*sku", "*sku"),
        ("stock/*sku", "*sku"),
        ("*sku", "*sku"),
        ("stock:${sku}", "${sku}"),
        ("{warehouse}/:sku", ":sku"),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert_eq!(error.to_string(), format!("`{written}` is not a placeholder: write `{{sku}}`"), "{template}");
    }
    for right in ["stock:sku", "stock:{sku}:all", "a*b", "5$:{sku}", "at/:8080", "all:*", "::x{sku}", "{a}:b"] {
        assert!(Template::parse(right).is_ok(), "{right}");
    }
}

#[test]
fn placeholders_are_separated() {
    let not_separated = || InvalidTemplate::NotSeparated { first: "a".into(), second: "query.b".into() };
    for wrong in ["", "-", "x.y_z~0", "%", "%3A"] {
        assert_eq!(Template::parse(&format!("stock:{{a}}{wrong}{{query.b}}:end")), Err(not_separated()), "{wrong}");
    }
    assert_eq!(
        not_separated().to_string(),
        "nothing separates the value of `{a}` from that of `{query.b}`: put a character between them that is encoded \
         in values, such as `:` or `/`, as in `{a}:{query.b}`"
    );
    for right in [":", "/", "-x:", ":%", " ", "@x", "é"] {
        assert!(Template::parse(&format!("{{a}}{right}{{b}}")).is_ok(), "{right}");
    }
    assert!(Template::parse("x{a}y").is_ok(), "a single one needs no separator");
}

/// Every template of two placeholders and up to three of these characters between them, with every pair of these
/// values: what is accepted maps different values to different resources.
#[test]
fn different_values_are_different_resources() {
    let characters = [':', '%', '3', 'A', '-'];
    let values = ["", ":", "%", "3", "3A", "%3A", ":3A", "-", "A-", "é"];
    let mut texts = vec![String::new()];
    for length in 0..3 {
        let longest: Vec<_> = texts.iter().filter(|text| text.len() == length).cloned().collect();
        texts.extend(longest.iter().flat_map(|text| characters.map(|c| format!("{text}{c}"))));
    }
    let mut accepted = 0;
    for text in texts {
        if Template::parse(&format!("{{a}}{text}{{b}}")).is_err() {
            continue;
        }
        accepted += 1;
        let mut seen = HashMap::new();
        for pair in values.iter().flat_map(|a| values.map(|b| (*a, b))) {
            let mut resource = String::new();
            push_encoded_bytes(&mut resource, pair.0.as_bytes());
            resource.push_str(&text);
            push_encoded_bytes(&mut resource, pair.1.as_bytes());
            assert_eq!(seen.insert(resource, pair), None, "{pair:?} with {text:?}");
        }
    }
    assert_eq!(accepted, 1 + 9 + 61, "the texts that contain a colon");
}

#[test]
fn an_invalid_template_is_reported_with_the_position() {
    assert_eq!(Template::parse(""), Err(InvalidTemplate::Empty));
    assert_eq!(Template::parse("a{b"), Err(InvalidTemplate::UnbalancedBrace { at: 1 }));
    assert_eq!(Template::parse("a}b"), Err(InvalidTemplate::UnbalancedBrace { at: 1 }));
    assert_eq!(Template::parse("x{a}y{b{c}}"), Err(InvalidTemplate::UnbalancedBrace { at: 5 }));
    assert_eq!(Template::parse("a{}"), Err(InvalidTemplate::MissingName { at: 1 }));
    assert_eq!(Template::parse("{header.}"), Err(InvalidTemplate::MissingName { at: 0 }));
    let invalid = |placeholder: &str, reason: &str| {
        Err(InvalidTemplate::InvalidName { placeholder: placeholder.into(), reason: reason.into() })
    };
    assert_eq!(Template::parse("{header.a b}"), invalid("header.a b", "`a b` is not a header name"));
    assert_eq!(Template::parse("a{*rest}"), invalid("*rest", "write `{rest}`"));
    assert_eq!(Template::parse("a\n{b}"), Err(InvalidTemplate::ControlCharacter { character: '\n', at: 1 }));
    let long = |len| format!("{}{{b}}", "x".repeat(len));
    assert!(Template::parse(&long(512)).is_ok());
    assert_eq!(Template::parse(&long(513)), Err(InvalidTemplate::TextTooLong { len: 513 }));
    assert_eq!(
        Template::parse("{cookie.id}"),
        Err(InvalidTemplate::UnknownPlaceholder { placeholder: "cookie.id".into() })
    );
}
