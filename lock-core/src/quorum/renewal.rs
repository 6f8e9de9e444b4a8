use std::time::Duration;

/// How long after a grant, or a renewal, the next renewal is due. After a third of the time to live, two more thirds are left for
/// renewals that fail.
///
/// A grant is bare while a node may lack the key: what the former holder released was still on its way there. If one clock is then
/// stepped forward, nobody has a majority. So the first renewals come early, to put the key where it is missing. `bare` is how many of them
/// there were; the pause doubles, because a node that has the key of a stranger goes on to refuse.
pub fn renewal_pause(ttl: Duration, bare: Option<u32>) -> Duration {
    let usual = ttl / 3;
    bare.map_or(usual, |renewals| (ttl / 300).saturating_mul(2_u32.saturating_pow(renewals)).min(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_grant_is_renewed_early_and_then_less_and_less_often() {
        let ttl = Duration::from_secs(30);
        let pauses =
            [None, Some(0), Some(1), Some(6), Some(7), Some(u32::MAX)].map(|bare| renewal_pause(ttl, bare).as_millis());
        assert_eq!(pauses, [10_000, 100, 200, 6_400, 10_000, 10_000]);
    }
}
