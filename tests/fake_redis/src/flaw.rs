/// A way in which the scripts of a simulated server are wrong on purpose, to see that the checkers notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A release deletes the lock, whatever its holder.
    ReleasesForAnyone,
    /// A request is executed in any epoch: after forgetting, in a quarantine, and under an old roster. Nor does the server say that it
    /// lost its data, as it need not: the epoch of its record is enough.
    VotesInAnyEpoch,
    /// A quarantine has no length.
    EndsQuarantinesAtOnce,
    /// Tokens are those of the fences alone. Not wrong while a majority of the masters remembers.
    IgnoresClocks,
    /// That, and a server joins without its floor.
    JoinsWithoutFloor,
    /// A release is acknowledged and deletes nothing.
    IgnoresReleases,
    /// All grants of a lock have the same fencing token.
    RepeatsFences,
    /// The fence is lost together with the lock, and the node keeps voting: only its clock still orders tokens.
    ForgetsFences,
    /// The first reader that leaves deletes the marker under all others.
    ForgetsOtherReaders,
    /// While its slot is being moved, a server of a cluster answers by the keys that are still there, as if there had been no others.
    ServesWhatIsLeft,
    /// A free key is reserved for a waiter for seconds, even if that one is dead or frozen.
    ReservesForSeconds,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ReleasesForAnyone,
        Self::VotesInAnyEpoch,
        Self::EndsQuarantinesAtOnce,
        Self::IgnoresClocks,
        Self::JoinsWithoutFloor,
        Self::IgnoresReleases,
        Self::RepeatsFences,
        Self::ForgetsFences,
        Self::ForgetsOtherReaders,
        Self::ServesWhatIsLeft,
        Self::ReservesForSeconds,
    ];

    /// The texts of scripts that the flaw replaces, and by what. They follow lock-core's scripts: a change there may need a
    /// change here.
    #[rustfmt::skip]
    fn patches(self) -> &'static [(&'static str, &'static str)] {
        const NO_CLOCK: (&str, &str) = ("if token - fence < tokens then", "if true then");
        // A lone request goes the way of the others, where the flaw is.
        const NONE_ALONE: (&str, &str) = ("if is_lone then", "if false then");
        match self {
            Self::ReleasesForAnyone => &[NONE_ALONE, ("if owner == holder then", "if holder then")],
            Self::VotesInAnyEpoch => &[("if record[1] ~= ARGV[1] then", "if false then")],
            Self::EndsQuarantinesAtOnce => &[("now + ms * 1000", "now")],
            Self::IgnoresClocks => &[NONE_ALONE, NO_CLOCK],
            Self::JoinsWithoutFloor => &[NONE_ALONE, NO_CLOCK, ("local floor = tonumber(ARGV[4])", "local floor")],
            Self::IgnoresReleases => &[NONE_ALONE, ("if count > 0 then call('DEL', unpack(deleted)) end", "")],
            Self::RepeatsFences => &[NONE_ALONE, ("if token - fence < tokens then", "token, last = 1, '1' if false then")],
            Self::ForgetsFences => &[NONE_ALONE, ("record[2 + acquire] or '0'", "holder and record[2 + acquire] or '0'")],
            Self::ForgetsOtherReaders => &[("if left < 0 then", "if true then")],
            // That is no matter of scripts.
            Self::ServesWhatIsLeft => &[],
            Self::ReservesForSeconds => {
                &[NONE_ALONE, (" - call('PTTL', key(lock_key, 'reserved'))", " * 0")]
            }
        }
    }

    /// The patterns that the flaw looks for in scripts.
    pub(super) fn patterns(self) -> impl Iterator<Item = &'static str> {
        self.patches().iter().map(|(pattern, _)| *pattern)
    }

    /// A script with the flaw, as far as it contains its patterns, and those.
    pub(super) fn apply(self, source: &str) -> (String, Vec<&'static str>) {
        let found: Vec<_> = self.patches().iter().filter(|(pattern, _)| source.contains(pattern)).collect();
        let patch = |source: String, (pattern, replacement): &&(&str, &str)| source.replace(pattern, replacement);
        (found.iter().fold(source.to_owned(), patch), found.iter().map(|(pattern, _)| *pattern).collect())
    }
}
