use std::borrow::Cow;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts as _, RawPathParams};
use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use lock_core::limits::MAX_RESOURCE_LEN;
use thiserror::Error;

use crate::encode::push_encoded_bytes;
use crate::key_error::KeyError;

/// A resource with placeholders for values of the request: `stock:{sku}`, `export:{header.x-tenant}`,
/// `search:{query.q}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Text(String),
    Path(String),
    Header(HeaderName),
    Query(String),
}

/// Why a template is invalid. Positions are in bytes from the start.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum InvalidTemplate {
    #[error("the template is empty")]
    Empty,
    #[error("unbalanced brace at byte {at}")]
    UnbalancedBrace { at: usize },
    #[error("placeholder without a name at byte {at}")]
    MissingName { at: usize },
    #[error("`{{{placeholder}}}` is not a valid placeholder: {reason}")]
    InvalidName { placeholder: String, reason: String },
    #[error("control character {character:?} at byte {at}")]
    ControlCharacter { character: char, at: usize },
    #[error("a resource can have at most {max} bytes, but the text of this template has {len}", max = MAX_RESOURCE_LEN)]
    TextTooLong { len: usize },
    #[error("`{written}` is not a placeholder: write `{{{name}}}`")]
    OtherSyntax { written: String, name: String },
    #[error("unknown placeholder {placeholder:?}: expected {{name}}, {{header.name}} or {{query.name}}")]
    UnknownPlaceholder { placeholder: String },
    #[error(
        "nothing separates the value of `{{{first}}}` from that of `{{{second}}}`: put a character between them that is \
         encoded in values, such as `:` or `/`, as in `{{{first}}}:{{{second}}}`"
    )]
    NotSeparated { first: String, second: String },
}

/// Why there is no resource.
#[derive(Debug, Error)]
pub(super) enum ResourceError {
    /// A mistake of the client.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A mistake of the service: the template is for other routes.
    #[error("the route has no path parameter {0:?}")]
    NoPathParameter(String),
    /// Another mistake of the service: it is unknown which of them the handler works on.
    #[error("the route has the path parameter {0:?} more than once")]
    AmbiguousPathParameter(String),
}

impl Template {
    pub(super) fn parse(template: &str) -> Result<Self, InvalidTemplate> {
        if template.is_empty() {
            return Err(InvalidTemplate::Empty);
        }
        if let Some((at, character)) = template.char_indices().find(|(_, c)| c.is_control()) {
            return Err(InvalidTemplate::ControlCharacter { character, at });
        }
        let (mut segments, mut text_len, mut previous) = (Vec::new(), 0, None);
        let mut rest = template;
        while !rest.is_empty() {
            let (text, placeholder) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
            let at = template.len() - placeholder.len();
            if let Some(other) = other_syntax(text, segments.is_empty(), placeholder) {
                return Err(other);
            }
            if !text.is_empty() {
                text_len += text.len();
                segments.push(Segment::Text(text.to_owned()));
            }
            if placeholder.is_empty() {
                break;
            }
            let unbalanced = InvalidTemplate::UnbalancedBrace { at };
            let Some(inside) = placeholder.strip_prefix('{') else { return Err(unbalanced) };
            // A second opening brace means that the first one was never closed.
            let end = inside.find(['{', '}']).filter(|end| inside[*end..].starts_with('}')).ok_or(unbalanced)?;
            let name = &inside[..end];
            segments.push(Segment::parse(name, at)?);
            if let Some(first) = previous.replace(name).filter(|_| !separates(text)) {
                return Err(InvalidTemplate::NotSeparated { first: first.to_owned(), second: name.to_owned() });
            }
            rest = &inside[end + 1..];
        }
        if text_len > MAX_RESOURCE_LEN {
            return Err(InvalidTemplate::TextTooLong { len: text_len });
        }
        Ok(Self(segments))
    }

    /// The resource for a request.
    pub(super) async fn render(&self, parts: &mut Parts) -> Result<String, ResourceError> {
        // Decodes all parameters of the path, so only if one of them is needed.
        let path = if self.0.iter().any(|segment| matches!(segment, Segment::Path(_))) {
            Some(RawPathParams::from_request_parts(parts, &()).await)
        } else {
            None
        };
        let mut resource = String::with_capacity(self.0.iter().map(Segment::usual_len).sum());
        for segment in &self.0 {
            match segment {
                Segment::Text(text) => resource.push_str(text),
                Segment::Path(name) => push_encoded_bytes(&mut resource, path_value(path.as_ref(), name)?.as_bytes()),
                Segment::Header(name) => push_encoded_bytes(&mut resource, header_value(parts, name)?),
                Segment::Query(name) => push_encoded_bytes(&mut resource, query_value(parts, name)?.as_bytes()),
            }
        }
        Ok(resource)
    }
}

impl Segment {
    /// How long the part of a resource is at the most, nearly always: an allocation is enough then.
    fn usual_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Path(_) | Self::Header(_) | Self::Query(_) => 40,
        }
    }

    /// Parses what is between the braces of a placeholder that begins at byte `at`.
    fn parse(placeholder: &str, at: usize) -> Result<Self, InvalidTemplate> {
        let invalid = |reason| InvalidTemplate::InvalidName { placeholder: placeholder.to_owned(), reason };
        match placeholder.split_once('.') {
            None if placeholder.is_empty() => Err(InvalidTemplate::MissingName { at }),
            Some(("query" | "header", "")) => Err(InvalidTemplate::MissingName { at }),
            None if is_path_name(placeholder) => Ok(Self::Path(placeholder.to_owned())),
            None => Err(invalid(path_name_remedy(placeholder))),
            Some(("query", name)) if name.contains(char::is_whitespace) => {
                Err(invalid("query parameters have names without whitespace".to_owned()))
            }
            Some(("query", name)) => Ok(Self::Query(name.to_owned())),
            Some(("header", name)) => {
                name.parse().map(Self::Header).map_err(|_| invalid(format!("`{name}` is not a header name")))
            }
            Some(_) => Err(InvalidTemplate::UnknownPlaceholder { placeholder: placeholder.to_owned() }),
        }
    }
}

/// A placeholder in the syntax of others: `/:sku` and `*sku`, as in the routes of others, and `${sku}`, as in the shell. The text would be
/// part of the name, and all requests would have the same resource.
fn other_syntax(text: &str, is_first: bool, placeholder: &str) -> Option<InvalidTemplate> {
    let other = |written: String, name: &str| Some(InvalidTemplate::OtherSyntax { written, name: name.to_owned() });
    if text.ends_with('$')
        && let Some(end) = placeholder.find('}')
    {
        let name = placeholder.get(1..end)?;
        return other(format!("${{{name}}}"), name);
    }
    for (at, sigil) in text.match_indices([':', '*']) {
        let begins = match text[..at].chars().next_back() {
            None => is_first,
            Some(before) => before == '/' || sigil == "*" && before == ':',
        };
        let rest = &text[at + 1..];
        let end = rest.find(|c| !is_path_name_char(c)).unwrap_or(rest.len());
        if begins && rest.starts_with(|c: char| c == '_' || c.is_alphabetic()) {
            return other(format!("{sigil}{}", &rest[..end]), &rest[..end]);
        }
    }
    None
}

/// Whether a route may have a path parameter of this name. Routers allow more; but what is more than a name, such as the
/// `*` of a wildcard, would never be found in a request.
fn is_path_name(name: &str) -> bool {
    name.chars().all(is_path_name_char)
}

fn is_path_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// What to write instead: the name without the `*` of a wildcard, the `:` of older routes, spaces or a format.
fn path_name_remedy(placeholder: &str) -> String {
    let name = placeholder.trim_start_matches([' ', '*', ':']).split(':').next().unwrap_or_default().trim_end();
    if name.is_empty() || !is_path_name(name) {
        "path parameters have names of letters, digits, `_` and `-`".to_owned()
    } else {
        format!("write `{{{name}}}`")
    }
}

/// Whether a text between two placeholders has a character that no encoded value contains. `%` is not one: it begins what
/// is encoded.
fn separates(text: &str) -> bool {
    text.chars().any(|c| !(c.is_ascii_alphanumeric() || "-._~%".contains(c)))
}

fn path_value<'a>(
    path: Option<&'a Result<RawPathParams, RawPathParamsRejection>>,
    name: &str,
) -> Result<&'a str, ResourceError> {
    let path = match path {
        Some(Ok(path)) => Some(path),
        // Only the client can cause this one: the path has bytes that are not UTF-8.
        Some(Err(error)) if error.status().is_client_error() => {
            return Err(KeyError::new("the path is not valid UTF-8").into());
        }
        _ => None,
    };
    let mut values = path.into_iter().flatten().filter(|(parameter, _)| *parameter == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(ResourceError::NoPathParameter(name.to_owned())),
        (Some(_), Some(_)) => Err(ResourceError::AmbiguousPathParameter(name.to_owned())),
    }
}

fn header_value<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a [u8], KeyError> {
    // HTTP/2 has it in the URI.
    if name == HOST
        && !parts.headers.contains_key(HOST)
        && let Some(authority) = parts.uri.authority()
    {
        return Ok(authority.as_str().as_bytes());
    }
    only(parts.headers.get_all(name).iter(), "header", name.as_str()).map(HeaderValue::as_bytes)
}

fn query_value<'a>(parts: &'a Parts, name: &str) -> Result<Cow<'a, str>, KeyError> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = form_urlencoded::parse(query.as_bytes());
    let values = pairs.filter(|(parameter, _)| parameter == name).map(|(_, value)| value);
    only(values, "query parameter", name)
}

/// The only value. Two are rejected: the layer might lock by one of them and the handler work with the other.
fn only<T>(mut values: impl Iterator<Item = T>, kind: &str, name: &str) -> Result<T, KeyError> {
    let value = values.next().ok_or_else(|| KeyError::new(format!("the {kind} {name} is missing")))?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(KeyError::new(format!("the {kind} {name} is given more than once"))),
    }
}

#[cfg(test)]
mod tests;
