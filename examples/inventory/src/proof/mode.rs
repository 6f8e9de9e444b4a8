use clap::ValueEnum;
use serde::Serialize;

/// One row of the table: a way to keep purchases from interfering, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A purchase without protection.
    NoLock,
    /// A mutex inside each instance.
    LocalMutex,
    /// The distributed lock, and no holder outlives its lease.
    DistributedLock,
    /// The distributed lock, and every tenth holder of an instance pauses for longer than the TTL.
    Pause,
    /// The same pauses, and the write refuses a token that is not newer than the last written one.
    PauseFenceAtWrite,
    /// The same pauses, and the token is claimed before the read and again before the write.
    PauseFenceClaimed,
    /// No lock, but `UPDATE … SET quantity = quantity - 1 WHERE quantity >= 1`.
    AtomicSql,
}

impl Mode {
    /// All modes, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::NoLock,
        Self::LocalMutex,
        Self::DistributedLock,
        Self::Pause,
        Self::PauseFenceAtWrite,
        Self::PauseFenceClaimed,
        Self::AtomicSql,
    ];

    /// The name in the table.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoLock => "no lock",
            Self::LocalMutex => "process-local mutex",
            Self::DistributedLock => "distributed lock",
            Self::Pause => "lock, holder pauses > TTL",
            Self::PauseFenceAtWrite => " + fence checked at write only",
            Self::PauseFenceClaimed => " + fence claimed",
            Self::AtomicSql => "one atomic SQL statement",
        }
    }

    /// The name in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoLock => "no-lock",
            Self::LocalMutex => "local-mutex",
            Self::DistributedLock => "distributed-lock",
            Self::Pause => "pause",
            Self::PauseFenceAtWrite => "pause-fence-at-write",
            Self::PauseFenceClaimed => "pause-fence-claimed",
            Self::AtomicSql => "atomic-sql",
        }
    }

    /// Whether this mode promises never to oversell. The others are there to show how they oversell.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::DistributedLock | Self::PauseFenceClaimed | Self::AtomicSql)
    }

    /// Whether a purchase acquires the distributed lock, and may therefore find it busy.
    #[must_use]
    pub fn takes_lock(self) -> bool {
        matches!(self, Self::DistributedLock | Self::Pause | Self::PauseFenceAtWrite | Self::PauseFenceClaimed)
    }

    /// Whether the store may refuse a stale fencing token.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        matches!(self, Self::PauseFenceAtWrite | Self::PauseFenceClaimed)
    }

    /// Whether some holders pause for longer than the TTL.
    #[must_use]
    pub fn pauses(self) -> bool {
        matches!(self, Self::Pause | Self::PauseFenceAtWrite | Self::PauseFenceClaimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_command_line_and_in_json_are_the_same() {
        for mode in Mode::ALL {
            let value = mode.to_possible_value().unwrap();
            assert_eq!(value.get_name(), mode.name());
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
    }
}
