//! Durations, checked while compiling.

use std::time::Duration;

use syn::{Error, Expr, Lit};

use crate::value;

/// A duration and the range that the engine accepts: what it would refuse for every call is refused here.
pub(crate) struct Range {
    least: Duration,
    most: Duration,
}

/// The limit is the one that `max_ttl` can be raised to; the configured one is only known at run time.
pub(crate) const TTL: Range = Range { least: Duration::from_millis(100), most: Duration::from_secs(24 * 60 * 60) };
pub(crate) const WAIT: Range = Range { least: Duration::ZERO, most: Duration::from_secs(24 * 60 * 60) };
pub(crate) const MAX_HOLD: Range =
    Range { least: Duration::from_millis(1), most: Duration::from_secs(7 * 24 * 60 * 60) };

/// Reads a humantime literal.
pub(crate) fn parse(name: &str, value: &Expr, range: &Range) -> syn::Result<Duration> {
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
        let message = format!("{text:?} is not a duration: {reason}; write it like \"10s\", \"500ms\" or \"1m 30s\"");
        Error::new(literal.span(), message)
    })?;
    if duration < range.least {
        let least = humantime::format_duration(range.least);
        return Err(Error::new(literal.span(), format!("`{name}` must be at least {least}, this is {text}")));
    }
    if duration > range.most {
        let most = humantime::format_duration(range.most);
        return Err(Error::new(literal.span(), format!("`{name}` must be at most {most}, this is {text}")));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn message(name: &str, value: &Expr, range: &Range) -> String {
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
    fn explains_what_is_no_duration() {
        assert!(message("ttl", &parse_quote!("10x"), &TTL).starts_with("\"10x\" is not a duration: "));
        assert!(message("ttl", &parse_quote!(""), &TTL).starts_with("\"\" is not a duration: "));
        assert_eq!(message("wait", &parse_quote!(2), &WAIT), "`wait` needs a unit: write `wait = \"2s\"` for seconds");
        assert!(message("ttl", &parse_quote!(TTL), &TTL).starts_with("`ttl` must be a string"));
    }

    #[test]
    fn refuses_what_the_engine_would_refuse() {
        assert_eq!(message("ttl", &parse_quote!("99ms"), &TTL), "`ttl` must be at least 100ms, this is 99ms");
        assert_eq!(message("ttl", &parse_quote!("25h"), &TTL), "`ttl` must be at most 1day, this is 25h");
        assert_eq!(message("max_hold", &parse_quote!("0s"), &MAX_HOLD), "`max_hold` must be at least 1ms, this is 0s");
    }

    #[test]
    fn wait_may_be_zero() {
        assert_eq!(parse("wait", &parse_quote!("0s"), &WAIT).unwrap(), Duration::ZERO);
        assert_eq!(parse("wait", &parse_quote!("0"), &WAIT).unwrap(), Duration::ZERO);
    }
}
