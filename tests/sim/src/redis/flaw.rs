/// A way in which a fake server is broken on purpose, to see that the checkers notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A release deletes the lock whoever holds it.
    ReleasesForAnyone,
    /// A server that forgot everything is not put into quarantine, and votes at once.
    VotesAfterForgetting,
    /// A release is answered, and deletes nothing.
    IgnoresReleases,
    /// All grants of a lock have one fencing number.
    RepeatsFences,
    /// The fencing number of a lock is lost together with the lock, and the node votes on: only the clock is left to order tokens.
    ForgetsFences,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ReleasesForAnyone,
        Self::VotesAfterForgetting,
        Self::IgnoresReleases,
        Self::RepeatsFences,
        Self::ForgetsFences,
    ];
}
