use std::collections::BTreeMap;

use super::database::{Database, NOT_AN_INTEGER, SYNTAX_ERROR, integer, places, upper};
use super::double;
use super::resp::Reply;
use super::store::WrongType;

/// Members with their scores, ordered by score, and by their bytes where the scores are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SortedSet {
    entries: Vec<(f64, Vec<u8>)>,
    scores: BTreeMap<Vec<u8>, f64>,
}

impl SortedSet {
    /// Adds a member, or gives it another score. Returns whether it is new.
    fn add(&mut self, score: f64, member: &[u8]) -> bool {
        let new = !self.remove(member);
        let (Ok(at) | Err(at)) = self.find(score, member);
        self.entries.insert(at, (score, member.to_vec()));
        self.scores.insert(member.to_vec(), score);
        new
    }

    /// Removes a member. Returns whether it was there.
    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(at) = self.rank(member) else { return false };
        self.entries.remove(at);
        self.scores.remove(member).is_some()
    }

    /// The place of a member in the order.
    fn rank(&self, member: &[u8]) -> Option<usize> {
        self.find(*self.scores.get(member)?, member).ok()
    }

    /// The place of an entry, or where it would be.
    fn find(&self, score: f64, member: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other_score, other)| {
            other_score.total_cmp(&score).then_with(|| other.as_slice().cmp(member))
        })
    }

    /// Removes and returns the last entries, the last one first.
    fn pop(&mut self, most: usize) -> Vec<(f64, Vec<u8>)> {
        let popped: Vec<_> = self.entries.drain(self.entries.len().saturating_sub(most)..).rev().collect();
        popped.iter().for_each(|(_, member)| _ = self.scores.remove(member));
        popped
    }

    /// The members with at least this score.
    pub(super) fn from(&self, score: f64) -> impl Iterator<Item = &[u8]> {
        let first = self.entries.partition_point(|(other, _)| *other < score);
        self.entries[first..].iter().map(|(_, member)| member.as_slice())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Database {
    /// The commands on sorted sets. `None` for other commands, and for a wrong number of arguments.
    pub(super) fn on_sorted_sets(
        &mut self,
        name: &str,
        arguments: &[Vec<u8>],
        now: i64,
    ) -> Result<Option<Reply>, WrongType> {
        let store = &mut self.store;
        Ok(Some(match (name, arguments) {
            ("ZADD", [key, pairs @ ..]) if pairs.len() > 1 => {
                let entries = match scored(pairs) {
                    Ok(entries) => entries,
                    Err(error) => return Ok(Some(error)),
                };
                store.with_sorted_set(key, now, |set| {
                    Reply::length(entries.iter().filter(|(score, member)| set.add(*score, member)).count())
                })?
            }
            ("ZREM", [key, members @ ..]) if !members.is_empty() => store.with_sorted_set(key, now, |set| {
                Reply::length(members.iter().filter(|member| set.remove(member)).count())
            })?,
            ("ZRANGE", [key, from, to, options @ ..]) => match (integer(from), integer(to)) {
                _ if options.iter().any(|option| upper(option) != "WITHSCORES") => Reply::error(SYNTAX_ERROR),
                (Some(from), Some(to)) => store.with_sorted_set(key, now, |set| {
                    let entries = &set.entries[places(set.entries.len(), from, to)];
                    if options.is_empty() {
                        return Reply::List(entries.iter().map(|(_, member)| Reply::text(member)).collect());
                    }
                    Reply::Scored(entries.to_vec())
                })?,
                _ => Reply::error(NOT_AN_INTEGER),
            },
            ("ZRANK", [key, member]) => {
                store.with_sorted_set(key, now, |set| set.rank(member).map_or(Reply::Nil, Reply::length))?
            }
            ("ZSCORE", [key, member]) => store.with_sorted_set(key, now, |set| {
                set.scores.get(member).map_or(Reply::Nil, |score| Reply::Double(*score))
            })?,
            ("ZCARD", [key]) => store.with_sorted_set(key, now, |set| Reply::length(set.entries.len()))?,
            ("ZPOPMAX", [key]) => match store.with_sorted_set(key, now, |set| set.pop(1))?.pop() {
                Some((score, member)) => Reply::List(vec![Reply::text(member), Reply::Double(score)]),
                None => Reply::List(Vec::new()),
            },
            ("ZPOPMAX", [key, most]) => match integer(most).map(usize::try_from) {
                Some(Ok(most)) => Reply::Scored(store.with_sorted_set(key, now, |set| set.pop(most))?),
                _ => Reply::error("ERR value is out of range, must be positive"),
            },
            ("ZPOPMAX", [_, _, _, ..]) => Reply::error(SYNTAX_ERROR),
            _ => return Ok(None),
        }))
    }
}

/// The pairs of `ZADD`. Its options are not simulated.
fn scored(pairs: &[Vec<u8>]) -> Result<Vec<(f64, &[u8])>, Reply> {
    if !pairs.len().is_multiple_of(2) {
        return Err(Reply::error(SYNTAX_ERROR));
    }
    let scores = pairs.chunks(2).map(|pair| Some((double::parse(&pair[0])?, pair[1].as_slice())));
    scores.collect::<Option<_>>().ok_or_else(|| Reply::error("ERR value is not a valid float"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execute(database: &mut Database, words: &str) -> Reply {
        let mut words = words.split(' ');
        let name = words.next().unwrap();
        let arguments: Vec<_> = words.map(|word| word.as_bytes().to_vec()).collect();
        database.execute(name, &arguments, 0)
    }

    #[test]
    fn members_are_ordered_by_score_and_then_by_their_bytes() {
        let database = &mut Database::default();
        assert_eq!(execute(database, "ZADD z 2 b 10 a 2 B 2 ba"), Reply::Number(4));
        assert_eq!(execute(database, "ZADD z 1 a 2 b"), Reply::Number(0));
        let order = ["a", "B", "b", "ba"].map(Reply::text);
        assert_eq!(execute(database, "ZRANGE z 0 -1"), Reply::List(order.to_vec()));
        assert_eq!(execute(database, "ZRANK z ba"), Reply::Number(3));
        let last = vec![(2.0, b"ba".to_vec()), (2.0, b"b".to_vec())];
        assert_eq!(execute(database, "ZPOPMAX z 2"), Reply::Scored(last));
        assert_eq!(execute(database, "ZRANK z ba"), Reply::Nil);
    }

    #[test]
    fn a_sorted_set_ends_with_its_last_member() {
        let database = &mut Database::default();
        assert_eq!(execute(database, "ZCARD z"), Reply::Number(0));
        assert_eq!(execute(database, "EXISTS z"), Reply::Number(0));
        execute(database, "ZADD z 1 a 2 b");
        execute(database, "PEXPIRE z 5000");
        assert_eq!(execute(database, "ZREM z a none"), Reply::Number(1));
        assert_eq!(execute(database, "PTTL z"), Reply::Number(5_000));
        assert_eq!(execute(database, "ZREM z b"), Reply::Number(1));
        assert_eq!(execute(database, "EXISTS z"), Reply::Number(0));
    }

    #[test]
    fn a_key_of_another_type_is_left_alone() {
        let database = &mut Database::default();
        execute(database, "SET s text");
        let reply = execute(database, "ZADD s 1 a");
        assert!(matches!(&reply, Reply::Error(error) if error.starts_with("WRONGTYPE ")), "{reply:?}");
        assert_eq!(execute(database, "GET s"), Reply::text("text"));
    }
}
