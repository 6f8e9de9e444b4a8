use crate::Moment;

/// A claim of the fence of a resource, or a write behind it, that was accepted.
#[derive(Clone, Debug)]
pub struct Access {
    /// What was accessed.
    pub resource: String,
    /// With this token.
    pub token: u64,
    /// When it began, at the latest.
    pub began: Moment,
    /// When it was over, at the latest.
    pub done: Moment,
}

/// A write that begins after a larger token claimed the fence is refused: that of an evicted holder, as soon as the token of the forced
/// release is claimed.
#[must_use]
pub fn no_write_follows_a_larger_claim(writes: &[Access], claims: &[Access]) -> Vec<String> {
    let mut violations = Vec::new();
    for write in writes {
        let follows =
            |claim: &&Access| claim.resource == write.resource && claim.token > write.token && claim.done < write.began;
        let claim = claims.iter().find(follows);
        violations
            .extend(claim.map(|claim| format!("a write follows a claim with a larger token: {write:?}, {claim:?}")));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    // mutant: claims
    #[test]
    fn a_write_after_a_larger_claim_is_found() {
        let access =
            |token, began, done| Access { resource: "r".into(), token, began: Moment(began), done: Moment(done) };
        let found =
            |token, began| no_write_follows_a_larger_claim(&[access(token, began, 90)], &[access(7, 10, 20)]).len();
        assert_eq!([20, 21].map(|began| found(6, began)), [0, 1], "at the same time; afterwards");
        assert_eq!([found(7, 30), found(8, 30)], [0, 0], "it is not smaller");
        let other = Access { resource: "other".into(), ..access(6, 30, 90) };
        assert_eq!(no_write_follows_a_larger_claim(&[other], &[access(7, 10, 20)]).len(), 0);
    }
}
