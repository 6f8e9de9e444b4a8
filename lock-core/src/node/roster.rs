use std::fmt;
use std::time::Duration;

/// Identifies the memory of a node. A node that lost its data, or may have, gets a new one.
///
/// The node completes it with its own time, in microseconds, so that no message that is repeated writes an id twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// Drawn by the client that wrote the id.
    pub random: u64,
    /// The node's clock when it was written.
    pub micros: u64,
}

/// Identifies a set of masters, from when it was formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u64);

/// The members of a set, and what all of its clients agree on. A change makes the roster of the next generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roster {
    /// The set.
    pub set: SetId,
    /// Counts the changes, from 1. A set that was formed from nodes that may have granted locks before begins with 2.
    pub generation: u64,
    /// The longest time to live of any lock.
    pub max_ttl: Duration,
    /// For how long a node that joins grants nothing: the longest time to live that any lock may still have.
    pub quarantine_ttl: Duration,
    /// The sets that this one was formed over, as far as its founder knew, the last one first. A client that counts by one of them must
    /// not form it again.
    pub formed_over: Vec<SetId>,
    /// The name of the set.
    pub name: String,
    /// Into what the locks are divided, of which this set has one part.
    pub division: Division,
    /// A seat for each master. More than half of them, vacant ones included, are a majority.
    pub seats: Vec<Option<Seat>>,
}

/// Which part of all locks a set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// One shard of this many, which are all on the same masters.
    Shards(u32),
    /// The shard at this place, counted from 0, of this many. Each has masters of its own.
    Set {
        /// Its place in the list of the clients.
        place: u32,
        /// How many sets there are.
        of: u32,
    },
}

impl Default for Division {
    fn default() -> Self {
        Self::Shards(1)
    }
}

/// For people.
impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards(shards) => write!(f, "{shards}"),
            Self::Set { place, of } => write!(f, "set {} of {of}", place + 1),
        }
    }
}

/// A seat that is taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Whose it is.
    pub member: MemberId,
    /// The name that the node had in the list of the client that added it.
    pub address: String,
}

/// The number of a proposal for the next roster, as in Paxos. No two proposals have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Grows with each proposal.
    pub round: u64,
    /// The client that proposes.
    pub proposer: u64,
}

/// A duration as the records keep it: in whole milliseconds, rounded up.
pub(crate) fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

impl Roster {
    /// What tells it from any other roster.
    pub fn id(&self) -> (SetId, u64) {
        (self.set, self.generation)
    }

    /// Whether the node with this id has a seat.
    pub fn contains(&self, member: MemberId) -> bool {
        self.members().any(|other| other == member)
    }

    /// Which seat the node with this id has.
    pub fn seat_of(&self, member: MemberId) -> Option<usize> {
        self.seats.iter().position(|seat| seat.as_ref().is_some_and(|seat| seat.member == member))
    }

    /// The ids of those who have a seat.
    pub fn members(&self) -> impl Iterator<Item = MemberId> {
        self.seats.iter().flatten().map(|seat| seat.member)
    }

    /// Their addresses.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        self.seats.iter().flatten().map(|seat| &*seat.address).collect()
    }
}

/// Ids and rosters as a record keeps them. A roster is a line about the set, and a line for each seat.
mod text {
    use super::{Ballot, Division, Duration, MemberId, Roster, Seat, SetId, fmt};
    use crate::node::limits::parse_number;

    impl fmt::Display for MemberId {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:016x}-{}", self.random, self.micros)
        }
    }

    impl MemberId {
        /// Parses the text that [`Display`](fmt::Display) writes.
        pub fn parse(text: &str) -> Option<Self> {
            let (random, micros) = text.split_once('-')?;
            Some(Self { random: u64::from_str_radix(random, 16).ok()?, micros: parse_number(micros)? })
        }
    }

    impl fmt::Display for SetId {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:016x}", self.0)
        }
    }

    impl fmt::Display for Ballot {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}-{:016x}", self.round, self.proposer)
        }
    }

    impl Ballot {
        /// Parses the text that [`Display`](fmt::Display) writes.
        pub fn parse(text: &str) -> Option<Self> {
            let (round, proposer) = text.split_once('-')?;
            Some(Self { round: parse_number(round)?, proposer: u64::from_str_radix(proposer, 16).ok()? })
        }
    }

    impl fmt::Display for Roster {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { set, generation, max_ttl, quarantine_ttl, formed_over, name, division, seats } = self;
            write!(f, "{set} {generation} {} {} ", max_ttl.as_millis(), quarantine_ttl.as_millis())?;
            match division {
                Division::Shards(shards) => write!(f, "{shards} -")?,
                Division::Set { place, of } => write!(f, "{place}/{of} -")?,
            }
            formed_over.iter().try_for_each(|set| write!(f, "{set}"))?;
            write!(f, " {name}")?;
            seats.iter().try_for_each(|seat| match seat {
                Some(Seat { member, address }) => write!(f, "\n{member} {address}"),
                None => write!(f, "\nvacant"),
            })
        }
    }

    impl Roster {
        /// Parses the text that [`Display`](fmt::Display) writes.
        pub fn parse(text: &str) -> Option<Self> {
            let mut lines = text.split('\n');
            let mut words = lines.next()?.splitn(7, ' ');
            let set = SetId(u64::from_str_radix(words.next()?, 16).ok()?);
            let generation = parse_number(words.next()?)?;
            let mut millis = || Some(Duration::from_millis(parse_number(words.next()?)?));
            let (max_ttl, quarantine_ttl) = (millis()?, millis()?);
            let division = parse_division(words.next()?)?;
            let formed_over = parse_sets(words.next()?)?;
            let name = words.next()?.to_owned();
            let seat = |line: &str| match line.split_once(' ') {
                None => (line == "vacant").then_some(None),
                Some((member, address)) => {
                    Some(Some(Seat { member: MemberId::parse(member)?, address: address.to_owned() }))
                }
            };
            let seats = lines.map(seat).collect::<Option<Vec<_>>>()?;
            Some(Self { set, generation, max_ttl, quarantine_ttl, formed_over, name, division, seats })
        }
    }

    /// Reads how many shards there are, or the place of a set among how many.
    fn parse_division(text: &str) -> Option<Division> {
        let number = |text| u32::try_from(parse_number(text)?).ok();
        Some(match text.split_once('/') {
            None => Division::Shards(number(text)?),
            Some((place, of)) => Division::Set { place: number(place)?, of: number(of)? },
        })
    }

    /// Reads a dash, and the ids of sets, of 16 digits each.
    fn parse_sets(text: &str) -> Option<Vec<SetId>> {
        let digits = text.strip_prefix('-')?.as_bytes();
        let set = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 16)?;
            Some(SetId(u64::from_str_radix(digits, 16).ok()?))
        };
        digits.chunks(16).map(set).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roster_parses_what_it_displays() {
        let seat =
            |random| Some(Seat { member: MemberId { random, micros: 7 }, address: format!("10.0.0.{random}:6379") });
        let roster = Roster {
            set: SetId(0xabc),
            generation: 3,
            max_ttl: Duration::from_secs(30),
            quarantine_ttl: Duration::from_secs(60),
            formed_over: vec![SetId(1), SetId(u64::MAX)],
            name: "two words".into(),
            division: Division::Shards(16),
            seats: vec![seat(1), None, seat(3)],
        };
        assert_eq!(Roster::parse(&roster.to_string()), Some(roster.clone()));
        let of_sets = Roster { division: Division::Set { place: 2, of: 4 }, ..roster.clone() };
        assert_eq!(Roster::parse(&of_sets.to_string()), Some(of_sets));
        let nameless = Roster { name: String::new(), formed_over: Vec::new(), ..roster };
        assert_eq!(Roster::parse(&nameless.to_string()), Some(nameless));
        assert_eq!(Roster::parse("nonsense"), None);
        let ballot = Ballot { round: 3, proposer: 0xff };
        assert_eq!(Ballot::parse(&ballot.to_string()), Some(ballot));
    }
}
