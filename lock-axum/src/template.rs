use axum::extract::{FromRequestParts as _, RawPathParams};
use http::HeaderName;
use http::request::Parts;
use lock_core::MAX_RESOURCE_LEN;
use thiserror::Error;

use crate::encode::{push_encoded, push_encoded_bytes};
use crate::rejection::{KeyError, LockRejection};

/// The name of a resource, with places for values of the request: `stock:{sku}`, `export:{header.x-tenant}`,
/// `search:{query.q}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Path(String),
    Header(HeaderName),
    Query(String),
}

/// Why a template can not be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum InvalidTemplate {
    #[error("it is empty")]
    Empty,
    #[error("the brace at byte {0} has no partner")]
    Unbalanced(usize),
    #[error("there is nothing between the braces at byte {0}")]
    NoName(usize),
    #[error("{0:?} can not be the name of a header")]
    HeaderName(String),
    #[error("it has {0:?} at byte {1}; control characters are not allowed")]
    Character(char, usize),
    #[error("its text alone has {0} bytes, allowed are {max} for the whole name", max = MAX_RESOURCE_LEN)]
    Length(usize),
    #[error("{0:?} is none of {{name}}, {{header.name}} and {{query.name}}")]
    Source(String),
}

impl Template {
    pub(crate) fn parse(template: &str) -> Result<Self, InvalidTemplate> {
        if template.is_empty() {
            return Err(InvalidTemplate::Empty);
        }
        if let Some((at, character)) = template.char_indices().find(|(_, c)| c.is_control()) {
            return Err(InvalidTemplate::Character(character, at));
        }
        let (mut segments, mut text) = (Vec::new(), 0);
        let mut rest = template;
        while !rest.is_empty() {
            let at = template.len() - rest.len();
            let brace = rest.find(['{', '}']).unwrap_or(rest.len());
            let (literal, placeholder) = rest.split_at(brace);
            if !literal.is_empty() {
                text += literal.len();
                segments.push(Segment::Literal(literal.to_owned()));
            }
            let Some(inside) = placeholder.strip_prefix('{') else {
                if placeholder.is_empty() {
                    break;
                }
                return Err(InvalidTemplate::Unbalanced(at + brace));
            };
            let end = inside.find(['{', '}']).filter(|end| inside[*end..].starts_with('}'));
            let end = end.ok_or(InvalidTemplate::Unbalanced(at + brace))?;
            segments.push(Segment::parse(&inside[..end], at + brace)?);
            rest = &inside[end + 1..];
        }
        if text > MAX_RESOURCE_LEN { Err(InvalidTemplate::Length(text)) } else { Ok(Self(segments)) }
    }

    /// The name for a request.
    pub(crate) async fn fill(&self, parts: &mut Parts) -> Result<String, LockRejection> {
        let path = if self.0.iter().any(|segment| matches!(segment, Segment::Path(_))) {
            Some(RawPathParams::from_request_parts(parts, &()).await)
        } else {
            None
        };
        let mut name = String::new();
        for segment in &self.0 {
            match segment {
                Segment::Literal(literal) => name.push_str(literal),
                Segment::Path(parameter) => {
                    let path = match path.as_ref() {
                        Some(Ok(path)) => Some(path),
                        // Only the client can have caused this: bytes in the path that are no UTF-8.
                        Some(Err(error)) if error.status().is_client_error() => {
                            return Err(KeyError::new("the path is not valid UTF-8").into());
                        }
                        _ => None,
                    };
                    let mut values = path.into_iter().flatten();
                    let (_, value) = values
                        .find(|(name, _)| name == parameter)
                        .ok_or_else(|| LockRejection::no_path_parameter(parameter))?;
                    push_encoded(&mut name, &value);
                }
                Segment::Header(header) => {
                    let values = parts.headers.get_all(header).iter();
                    push_encoded_bytes(&mut name, only(values, "header", header.as_str())?.as_bytes());
                }
                Segment::Query(parameter) => {
                    let query = parts.uri.query().unwrap_or_default();
                    let values = form_urlencoded::parse(query.as_bytes());
                    let values = values.filter(|(name, _)| name == parameter).map(|(_, value)| value);
                    push_encoded(&mut name, &only(values, "query parameter", parameter)?);
                }
            }
        }
        Ok(name)
    }
}

impl Segment {
    fn parse(placeholder: &str, at: usize) -> Result<Self, InvalidTemplate> {
        let named = |name: &str| if name.is_empty() { Err(InvalidTemplate::NoName(at)) } else { Ok(name.to_owned()) };
        match placeholder.split_once('.') {
            None => Ok(Self::Path(named(placeholder)?)),
            Some(("query", name)) => Ok(Self::Query(named(name)?)),
            Some(("header", name)) => {
                let name = named(name)?;
                name.parse().map(Self::Header).map_err(|_| InvalidTemplate::HeaderName(name))
            }
            Some(_) => Err(InvalidTemplate::Source(placeholder.to_owned())),
        }
    }
}

/// The only value. With two, this could lock by the one and the handler work by the other.
fn only<T>(mut values: impl Iterator<Item = T>, kind: &str, name: &str) -> Result<T, KeyError> {
    let value = values.next().ok_or_else(|| KeyError::new(format!("the {kind} {name} is missing")))?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(KeyError::new(format!("the {kind} {name} is there more than once"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    async fn fill(template: &str, request: http::request::Builder) -> Result<String, String> {
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        Template::parse(template).unwrap().fill(&mut parts).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn headers_and_query_values_fill_a_template() {
        let request = || Request::get("/?q=a%20b&q2=%3A").header("x-tenant", "t:1");
        assert_eq!(fill("export:{header.x-tenant}", request()).await.unwrap(), "export:t%3A1");
        assert_eq!(fill("{query.q}/{query.q2}", request()).await.unwrap(), "a%20b/%3A");
        assert_eq!(fill("nightly", request()).await.unwrap(), "nightly");
    }

    #[tokio::test]
    async fn a_missing_or_doubled_value_is_an_error_of_the_client() {
        let error = fill("x:{header.x-tenant}", Request::get("/")).await.unwrap_err();
        assert_eq!(error, "the header x-tenant is missing");
        let error = fill("x:{query.q}", Request::get("/?q=1&q=2")).await.unwrap_err();
        assert_eq!(error, "the query parameter q is there more than once");
    }

    #[tokio::test]
    async fn a_parameter_that_the_route_does_not_have_is_an_error_of_the_service() {
        let error = fill("stock:{sku}", Request::get("/")).await.unwrap_err();
        assert_eq!(error, "the route has no path parameter \"sku\"");
    }

    #[test]
    fn a_malformed_template_is_told_where() {
        assert_eq!(Template::parse(""), Err(InvalidTemplate::Empty));
        assert_eq!(Template::parse("a{b"), Err(InvalidTemplate::Unbalanced(1)));
        assert_eq!(Template::parse("a}b"), Err(InvalidTemplate::Unbalanced(1)));
        assert_eq!(Template::parse("x{a}y{b{c}}"), Err(InvalidTemplate::Unbalanced(5)));
        assert_eq!(Template::parse("a{}"), Err(InvalidTemplate::NoName(1)));
        assert_eq!(Template::parse("{header.}"), Err(InvalidTemplate::NoName(0)));
        assert_eq!(Template::parse("{header.a b}"), Err(InvalidTemplate::HeaderName("a b".into())));
        assert_eq!(Template::parse("a\n{b}"), Err(InvalidTemplate::Character('\n', 1)));
        let long = |text| format!("{}{{b}}", "x".repeat(text));
        assert!(Template::parse(&long(512)).is_ok());
        assert_eq!(Template::parse(&long(513)), Err(InvalidTemplate::Length(513)));
        assert_eq!(Template::parse("{cookie.id}"), Err(InvalidTemplate::Source("cookie.id".into())));
    }
}
