use std::fmt;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng as _};

use crate::mutex::Mutex;

/// The only source of randomness: owner ids, epochs, jitter. It can be seeded, so that a simulated run can be replayed.
pub(crate) struct Random(Mutex<StdRng>);

impl Random {
    /// An unpredictable source.
    pub(crate) fn from_system() -> Self {
        let mut seed = [0; 32];
        if getrandom::fill(&mut seed).is_err() {
            // Without the system's source, the random keys of the standard library's hash maps have to do: owner ids must be
            // unique, not secret.
            use std::hash::{BuildHasher as _, RandomState};
            for chunk in seed.chunks_mut(8) {
                let word = RandomState::new().hash_one(std::time::SystemTime::now());
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        Self(Mutex::new(StdRng::from_seed(seed)))
    }

    /// A source that yields the same sequence for the same seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    pub(crate) fn owner(&self) -> OwnerId {
        OwnerId(self.with(RngExt::random))
    }

    pub(crate) fn waiter(&self) -> WaiterId {
        WaiterId(self.with(RngExt::random))
    }

    /// 128 bits in the digits of a UUID, for what only has to be unlike any other.
    pub(crate) fn uuid(&self) -> String {
        format!("{:032x}", self.with(RngExt::random::<u128>))
    }

    /// Any number.
    pub(crate) fn number(&self) -> u64 {
        self.with(RngExt::random)
    }

    /// A duration between half of `most` and `most`, so that processes that start together spread out.
    pub(crate) fn jitter(&self, most: Duration) -> Duration {
        most.mul_f64(self.with(|rng| rng.random_range(0.5..1.0)))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock())
    }
}

/// An id, and what is written before its digits.
macro_rules! random_id {
    ($(#[$docs:meta])* $name:ident = $prefix:expr) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The id with these bits. The engine draws its ids at random; this is for models and for tests of a
            /// [`LockNode`](crate::LockNode).
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The id in digits, without the formatting machinery: every request contains some.
            pub(crate) fn hex(self) -> [u8; 32] {
                let mut digits = [0; 32];
                HEXLOWER.encode_mut(&self.0.to_be_bytes(), &mut digits);
                digits
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{:032x}", $prefix, self.0)
            }
        }
    };
}

random_id! {
    /// Identifies the holder of a key: 128 random bits, fresh for every attempt, so that a reply to one attempt can never be
    /// mistaken for a reply to another.
    OwnerId = Self::PREFIX
}

random_id! {
    /// Identifies a manager in the queues of the nodes: 128 random bits, drawn once for each manager. All its callers that wait
    /// for the same lock share one position.
    WaiterId = ""
}

random_id! {
    /// Says by which roster a node votes: 128 random bits, drawn when the roster is installed on it. A node that lost its data lost
    /// its epoch with it, and so cannot vote for clients that admitted it before.
    Epoch = ""
}

impl OwnerId {
    /// What the value of a lock key begins with. A key with another value is held by a stranger, whose release wakes nobody.
    pub const PREFIX: &str = "lock-";

    /// The value of a lock key that readers hold: a marker, and no owner id. It begins with the prefix, so it is no stranger's.
    pub const SHARED: &str = "lock-shared";

    /// Nobody's: the owner of a lock key that keeps everybody out for a moment after an eviction. No attempt has it.
    pub const NOBODY: Self = Self(0);

    /// The value of a lock key: what [`Display`](fmt::Display) writes, without the formatting machinery.
    pub(crate) fn value(self) -> [u8; 37] {
        let mut value = [0; 37];
        let (prefix, id) = value.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX.as_bytes());
        id.copy_from_slice(&self.hex());
        value
    }

    /// The id alone, in the digits of a UUID.
    pub(crate) fn uuid(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Parses a UUID, with or without hyphens.
    pub(crate) fn from_uuid(uuid: &str) -> Option<Self> {
        u128::from_str_radix(&uuid.replace('-', ""), 16).ok().map(Self)
    }

    /// Parses the value of a lock key. `None` for one that [`Display`](fmt::Display) does not write.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let digits = value.strip_prefix(Self::PREFIX.as_bytes())?;
        let bits = u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some(Self(bits)).filter(|owner| owner.value() == value)
    }
}

impl Epoch {
    /// Parses the text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_yields_one_sequence() {
        let (a, b, other) = (Random::from_seed(1), Random::from_seed(1), Random::from_seed(2));
        let sequence = |random: &Random| (random.owner(), random.number(), random.jitter(Duration::from_secs(1)));
        let first = sequence(&a);
        assert_eq!(first, sequence(&b));
        assert_ne!(first, sequence(&other));
        assert_ne!(first.0, a.owner(), "an owner id is fresh every time");
    }

    #[test]
    fn an_owner_is_read_from_what_it_writes_and_from_nothing_else() {
        let owner = OwnerId::from_bits(0xabc << 64 | 7);
        assert_eq!(OwnerId::parse(owner.to_string().as_bytes()), Some(owner));
        assert_eq!(owner.value(), owner.to_string().as_bytes());
        for other in ["", "lock-", "lock-7", "lock-+0000000000000000000000000000007", "LOCK-", "\u{e9}"] {
            assert_eq!(OwnerId::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(OwnerId::parse(owner.to_string().to_uppercase().as_bytes()), None);
    }

    #[test]
    fn an_epoch_parses_what_it_displays() {
        let epoch = Epoch::from_bits(0xabc << 64 | 7);
        assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        for bits in [0xabc << 64 | 7, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 0, u128::MAX] {
            let epoch = Epoch::from_bits(bits);
            assert_eq!(epoch.hex(), epoch.to_string().as_bytes());
        }
    }
}
