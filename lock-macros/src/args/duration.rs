//! Parses durations and checks their range at compile time.

use std::ops::RangeInclusive;
use std::time::Duration;

use syn::{Error, Expr, Lit};

use super::value;

/// Parses a humantime literal, such as `"1m 30s"`.
pub(crate) fn parse(name: &str, value: &Expr, range: &RangeInclusive<Duration>) -> syn::Result<Duration> {
    let literal = match value::literal(value) {
        Some(Lit::Str(literal)) => literal,
        Some(Lit::Int(number)) => {
            let message =
                format!("`{name}` needs a unit: write `{name} = \"{}s\"` for seconds", number.base10_digits());
            return Err(Error::new_spanned(value, message));
        }
        _ => return Err(Error::new_spanned(value, format!("`{name}` must be a string such as \"10s\" or \"500ms\""))),
    };
    let text = literal.value();
    let duration = humantime::parse_duration(text.trim()).map_err(|reason| {
        let message =
            format!("invalid duration {text:?}: {reason}; expected a value such as \"10s\", \"500ms\" or \"1m 30s\"");
        Error::new(literal.span(), message)
    })?;
    if !range.contains(&duration) {
        let (min, max) = (humantime::format_duration(*range.start()), humantime::format_duration(*range.end()));
        return Err(Error::new(literal.span(), format!("`{name}` must be between {min} and {max}, got {text}")));
    }
    Ok(duration)
}

/// Parses a humantime literal of whole seconds, as an HTTP header has them.
pub(crate) fn parse_seconds(name: &str, value: &Expr, range: &RangeInclusive<Duration>) -> syn::Result<Duration> {
    let duration = parse(name, value, range)?;
    if duration.subsec_nanos() != 0 {
        let got = humantime::format_duration(duration);
        return Err(Error::new_spanned(value, format!("`{name}` must be whole seconds, got {got}")));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;
    use crate::limits::{MAX_HOLD, RETRY_AFTER, TTL, WAIT};

    fn message(name: &str, value: &Expr, range: &RangeInclusive<Duration>) -> String {
        parse(name, value, range).unwrap_err().to_string()
    }

    #[test]
    fn reads_humantime() {
        let ttl = |value: Expr| parse("ttl", &value, &TTL).unwrap();
        assert_eq!(ttl(parse_quote!("10s")), Duration::from_secs(10));
        assert_eq!(ttl(parse_quote!("1m 30s")), Duration::from_secs(90));
        assert_eq!(ttl(parse_quote!("1500ms")), Duration::from_millis(1500));
        assert_eq!(ttl(parse_quote!(" 100ms ")), Duration::from_millis(100));
    }

    #[test]
    fn explains_an_invalid_duration() {
        assert!(message("ttl", &parse_quote!("10x"), &TTL).starts_with("invalid duration \"10x\": "));
        assert!(message("ttl", &parse_quote!(""), &TTL).starts_with("invalid duration \"\": "));
        assert_eq!(message("wait", &parse_quote!(2), &WAIT), "`wait` needs a unit: write `wait = \"2s\"` for seconds");
        assert!(message("ttl", &parse_quote!(TTL), &TTL).starts_with("`ttl` must be a string"));
    }

    #[test]
    fn rejects_values_that_the_engine_cannot_accept() {
        assert_eq!(message("ttl", &parse_quote!("99ms"), &TTL), "`ttl` must be between 100ms and 1day, got 99ms");
        assert_eq!(message("ttl", &parse_quote!("25h"), &TTL), "`ttl` must be between 100ms and 1day, got 25h");
        assert_eq!(
            message("max_hold", &parse_quote!("0s"), &MAX_HOLD),
            "`max_hold` must be between 1ms and 7days, got 0s"
        );
    }

    #[test]
    fn retry_after_is_whole_seconds() {
        let parse = |value: Expr| parse_seconds("retry_after", &value, &RETRY_AFTER).map_err(|error| error.to_string());
        assert_eq!(parse(parse_quote!("1m 30s")), Ok(Duration::from_secs(90)));
        assert_eq!(parse(parse_quote!("1500ms")).unwrap_err(), "`retry_after` must be whole seconds, got 1s 500ms");
        assert_eq!(parse(parse_quote!("0s")).unwrap_err(), "`retry_after` must be between 1s and 1h, got 0s");
    }

    #[test]
    fn wait_may_be_zero() {
        assert_eq!(parse("wait", &parse_quote!("0s"), &WAIT).unwrap(), Duration::ZERO);
        assert_eq!(parse("wait", &parse_quote!("0"), &WAIT).unwrap(), Duration::ZERO);
    }
}
