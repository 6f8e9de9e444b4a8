use std::fmt;
use std::time::Duration;

/// A duration for people: in whole milliseconds, or from ten seconds on in whole seconds, rounded up.
pub(super) struct Rounded(pub(super) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.0 < Duration::from_secs(10) { Duration::from_millis(1) } else { Duration::from_secs(1) };
        let units = self.0.as_nanos().div_ceil(unit.as_nanos()).max(1);
        match u32::try_from(units) {
            Ok(units) => write!(f, "{:?}", unit * units),
            // Longer than a hundred years.
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_up_to_what_people_read() {
        let text = |nanos| Rounded(Duration::from_nanos(nanos)).to_string();
        assert_eq!([text(0), text(1), text(1_000_001)], ["1ms", "1ms", "2ms"]);
        assert_eq!([text(999_000_001), text(2_000_123_000), text(9_999_999_999)], ["1s", "2.001s", "10s"]);
        assert_eq!([text(10_000_000_001), text(61_200_000_000)], ["11s", "62s"]);
        assert_eq!(Rounded(Duration::MAX).to_string(), format!("{}s", u64::MAX));
    }
}
