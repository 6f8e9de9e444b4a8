/// A way in which the scripts of a simulated server are wrong on purpose, to see that the checkers notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A release deletes the lock, whoever holds it.
    ReleasesForAnyone,
    /// A server that forgot everything votes at once, without a quarantine.
    VotesAfterForgetting,
    /// A release is acknowledged and deletes nothing.
    IgnoresReleases,
    /// All grants of a lock have the same fencing token.
    RepeatsFences,
    /// The fence is lost together with the lock, and the node keeps voting: only its clock still orders tokens.
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

    /// The text of a script that the flaw replaces, and by what. It follows lock-core's scripts: a change there may need a
    /// change here.
    #[rustfmt::skip]
    fn patch(self) -> (&'static str, &'static str) {
        match self {
            Self::ReleasesForAnyone => ("if owner == holder then", "if holder then"),
            Self::VotesAfterForgetting => ("if quarantine > 0 then", "if false then"),
            Self::IgnoresReleases => ("if count > 0 then call('DEL', unpack(deleted)) end", ""),
            Self::RepeatsFences => ("if token - fence < tokens then", "token, last = 1, '1' if false then"),
            Self::ForgetsFences => ("record[1 + acquire] or '0'", "holder and record[1 + acquire] or '0'"),
        }
    }

    /// The pattern that the flaw looks for in a script.
    pub(super) fn pattern(self) -> &'static str {
        self.patch().0
    }

    /// A script with the flaw. `None` if the script does not contain the pattern.
    pub(super) fn apply(self, source: &str) -> Option<String> {
        let (pattern, replacement) = self.patch();
        source.contains(pattern).then(|| source.replace(pattern, replacement))
    }
}
