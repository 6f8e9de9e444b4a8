//! Doubles, as Redis reads and prints them.

/// The double that a word is; `None` for what Redis refuses, which includes what is too large for one.
pub(super) fn parse(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let double: f64 = text.parse().ok()?;
    let says_infinity = text.to_ascii_lowercase().contains("inf");
    // The one zero: -0 is stored as the integer 0.
    (!double.is_nan() && double.is_infinite() == says_infinity).then_some(double + 0.0)
}

/// The double in C's format `%.17g`: with at most 17 digits, and an exponent only if it is below -4 or above 16.
pub(super) fn print(double: f64) -> String {
    if !double.is_finite() {
        return double.to_string().to_lowercase();
    }
    let scientific = format!("{double:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse().unwrap_or(0_i32) {
        exponent @ -4..=16 => {
            let decimals = usize::try_from(16 - exponent).unwrap_or_default();
            trimmed(&format!("{double:.decimals$}")).to_owned()
        }
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
        }
    }
}

/// A number without the zeros that end its decimals.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_is_printed_as_c_prints_it() {
        let doubles = [0.0, 100.0, -1.5, 0.1, 1.5e-7, 9_007_199_254_740_992.0, 1e16, 1e17, 1e21, 1e300, 1e-5, 0.0001];
        let printed = [
            "0",
            "100",
            "-1.5",
            "0.10000000000000001",
            "1.4999999999999999e-07",
            "9007199254740992",
            "10000000000000000",
            "1e+17",
            "1e+21",
            "1.0000000000000001e+300",
            "1.0000000000000001e-05",
            "0.0001",
        ];
        assert_eq!(doubles.map(print), printed);
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY].map(print), ["inf", "-inf"]);
    }

    #[test]
    fn what_is_no_double_is_refused() {
        for word in ["", "x", "nan", " 1", "1 ", "1e400", "-1e400"] {
            assert_eq!(parse(word.as_bytes()), None, "{word:?}");
        }
        let parsed = ["+1", "-0", "Infinity", "-inf", "1e3"].map(|word| parse(word.as_bytes()).map(print));
        assert_eq!(parsed.map(Option::unwrap_or_default), ["1", "0", "inf", "-inf", "1000"]);
    }
}
