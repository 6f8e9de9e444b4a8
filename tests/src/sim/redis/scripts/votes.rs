use std::sync::Arc;

use lock_core::{Keyspace, LockKeys};

use super::Call;
use super::lua::{Broken, float, number, set_new, texts, whole};
use crate::sim::redis::commands::integer;
use crate::sim::redis::flaw::Flaw;
use crate::sim::redis::resp::Answer;

// The answers' codes, as in `begin.lua`.
const GRANTED: i64 = 1;
const HELD: i64 = 2;
const QUARANTINED: i64 = 3;
const CONFIRMED: i64 = 4;
const REFUSED: i64 = 5;
const KEPT: i64 = 6;
const GONE: i64 = 7;
const RELEASED: i64 = 8;
const NOT_OWNER: i64 = 9;

/// 2^53 - 1: beyond it, Lua can not tell a number from the next.
const LARGEST_FENCE: f64 = 9_007_199_254_740_991.0;

/// A code and a number as it is told, or why the ballot failed.
type Voted = Result<(i64, Vec<u8>), String>;

/// The script of the votes while it runs. Ballots are told by their place, from 0 on.
pub(super) struct Votes<'a> {
    pub(super) call: Call<'a>,
    pub(super) waiter: &'a [u8],
    /// The locks of the ballots.
    pub(super) locks: &'a [Vec<u8>],
    /// Who holds them.
    holders: Vec<Option<Vec<u8>>>,
    /// If there may be any: of each ballot that acquires or releases the queue, and then the turn.
    pub(super) lines: Option<Vec<Option<Vec<u8>>>>,
    /// Whether it was noted that there are queues or turns.
    pub(super) noted: bool,
    /// The words of the ballots that are to come.
    words: &'a [Vec<u8>],
    answers: Vec<Voted>,
}

/// What is to be written for an acquire that is granted.
struct Grant<'a> {
    ballot: usize,
    field: &'a [u8],
    fence: Vec<u8>,
    owner: &'a [u8],
    ttl: &'a [u8],
    since: &'a [u8],
}

impl<'a> Votes<'a> {
    /// `begin.lua`, and what follows it.
    pub(super) fn run(call: Call<'a>) -> Result<Answer, Broken> {
        let ([meta, quarantine, queued, locks @ ..], [epoch, waiter, pairs, releases, acquires, words @ ..]) =
            (call.keys, call.arguments)
        else {
            return Err(Broken::malformed());
        };
        let count = |word: &Vec<u8>| integer(word).and_then(|count| usize::try_from(count).ok());
        let counts = count(pairs).zip(count(releases)).zip(count(acquires));
        let ((pairs, releases), acquires) = counts.ok_or_else(Broken::malformed)?;
        let (fields, words) = words.split_at_checked(acquires).ok_or_else(Broken::malformed)?;
        if acquires + releases > locks.len() || pairs > acquires.min(releases) {
            return Err(Broken::malformed());
        }
        let (store, now) = (&mut *call.store, call.now);

        if store.field(meta, b"epoch", now)? != Some(epoch.as_slice()) {
            return Ok(Answer::text("0"));
        }
        let mut fences = Vec::new();
        for field in fields {
            fences.push((field.as_slice(), store.field(meta, field, now)?.unwrap_or(b"0").to_vec()));
        }
        let [in_quarantine, may_wait] = [quarantine, queued].map(|key| matches!(store.get(key, now), Ok(Some(_))));
        let holders = texts(store, locks, now);
        let mut votes = Self { call, waiter, locks, holders, lines: None, noted: false, words, answers: Vec::new() };
        votes.lines = may_wait.then(|| votes.read_lines(releases + acquires));

        let mut moved = false;
        for ballot in 0..releases {
            moved |= votes.release(ballot)?;
        }
        for pair in 0..pairs {
            votes.holders[releases + pair] = texts(votes.call.store, &locks[pair..=pair], now).remove(0);
        }
        if moved && pairs > 0 {
            votes.lines = Some(votes.read_lines(releases + acquires));
        }
        votes.acquires(releases, &fences, in_quarantine)?;
        for ballot in releases + acquires..locks.len() {
            let voted = votes.other(ballot)?;
            votes.answers.push(voted);
        }
        Ok(Answer::text(votes.answers.into_iter().map(told).collect::<Vec<_>>().join(&b'\n')))
    }

    fn take_words<const N: usize>(&mut self) -> Result<[&'a [u8]; N], Broken> {
        let (words, later) = self.words.split_first_chunk().ok_or_else(Broken::malformed)?;
        self.words = later;
        Ok(words.each_ref().map(Vec::as_slice))
    }

    fn is_held_by(&self, ballot: usize, owner: &[u8]) -> bool {
        self.holders[ballot].as_deref() == Some(owner)
    }

    pub(super) fn pttl(&mut self, key: &[u8]) -> f64 {
        float(self.call.store.pttl(key, self.call.now))
    }

    fn set_fence(&mut self, field: &[u8], number: &[u8]) -> Result<(), Broken> {
        let Call { store, keys, now, .. } = &mut self.call;
        store.set_fields(&keys[0], [(field.to_vec(), number.to_vec())], *now)?;
        Ok(())
    }

    /// Whether the lock was free, or why not even that is known.
    fn set_lock(&mut self, ballot: usize, owner: &[u8], ttl: &[u8]) -> Result<bool, String> {
        set_new(self.call.store, &self.locks[ballot], owner, ttl, self.call.now)
    }

    /// `acquire.lua`
    fn acquires(&mut self, from: usize, fences: &[(&'a [u8], Vec<u8>)], in_quarantine: bool) -> Result<(), Broken> {
        let mut granted = Vec::new();
        for (ballot, (field, text)) in (from..).zip(fences) {
            self.call.count("acquire");
            let [owner, ttl, last, tokens, since] = self.take_words()?;
            let voted = match number(text) {
                _ if in_quarantine => Ok((QUARANTINED, time(self.pttl(&self.call.keys[1])))),
                None => Err(not_a_fence()),
                Some(_) if self.is_held_by(ballot, owner) => Ok((GRANTED, text.clone())),
                Some(fence) => {
                    let (held, since_when) = (self.holders[ballot].is_some(), sent(since)?);
                    let kept = held || self.lines.is_some();
                    let free_in = if kept { self.kept_from(ballot, held, since_when) } else { None };
                    let (number, fence) = self.next(fence, last, sent(tokens)?)?;
                    match free_in {
                        Some(free_in) => Ok((HELD, time(free_in))),
                        None if number > LARGEST_FENCE => Err("the fence is used up".to_owned()),
                        None => {
                            granted.push(Grant { ballot, field, fence: fence.clone(), owner, ttl, since });
                            Ok((GRANTED, fence))
                        }
                    }
                }
            };
            self.answers.push(voted);
        }
        for Grant { ballot, field, fence, owner, ttl, since } in granted {
            self.set_fence(field, &fence)?;
            match self.set_lock(ballot, owner, ttl) {
                Err(error) => self.answers[ballot] = Err(error),
                Ok(false) => self.answers[ballot] = Ok((HELD, time(self.pttl(&self.locks[ballot])))),
                Ok(true) if self.lines.is_some() && since != b"0" => self.end_turn(ballot),
                Ok(true) => {}
            }
        }
        Ok(())
    }

    /// The last of the numbers that are granted, and as it is written.
    fn next(&self, fence: f64, last: &[u8], tokens: f64) -> Result<(f64, Vec<u8>), Broken> {
        let number = sent(last)?;
        Ok(if self.call.flaw == Some(Flaw::RepeatsFences) {
            (1.0, b"1".to_vec())
        } else if number - fence < tokens {
            (fence + tokens, whole(fence + tokens).into_bytes())
        } else {
            (number, last.to_vec())
        })
    }

    /// `release.lua`. Whether the queue was looked at.
    fn release(&mut self, ballot: usize) -> Result<bool, Broken> {
        self.call.count("release");
        let [owner, place] = self.take_words()?;
        let (flaw, free) = (self.call.flaw, self.holders[ballot].is_none());
        let ours = self.is_held_by(ballot, owner) || flaw == Some(Flaw::ReleasesForAnyone) && !free;
        if ours && flaw != Some(Flaw::IgnoresReleases) {
            self.call.store.delete(&self.locks[ballot], self.call.now);
        }
        if ours && flaw == Some(Flaw::ForgetsFences) {
            let field = fence_of(&self.locks[ballot]);
            self.call.store.delete_field(&self.call.keys[0], field.as_bytes(), self.call.now)?;
        }
        let moves = self.lines.is_some() || !matches!(place, b"" | b"leave");
        if moves {
            self.move_on(ballot, ours || free, place)?;
        }
        self.answers.push(Ok((if ours { RELEASED } else { NOT_OWNER }, nothing())));
        Ok(moves)
    }

    /// `others`
    fn other(&mut self, ballot: usize) -> Result<Voted, Broken> {
        let [kind] = self.take_words()?;
        match kind {
            b"C" => self.confirm(ballot),
            b"E" => self.extend(ballot),
            _ => self.replace(ballot),
        }
    }

    fn confirm(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("confirm");
        let [owner, wanted, field] = self.take_words()?;
        let text = self.fence(field)?;
        let Some(fence) = number(&text) else { return Ok(Err(not_a_fence())) };
        if !self.is_held_by(ballot, owner) || fence > sent(wanted)? {
            return Ok(Ok((REFUSED, text)));
        }
        self.set_fence(field, wanted)?;
        Ok(Ok((CONFIRMED, nothing())))
    }

    fn extend(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("extend");
        let [owner, ttl] = self.take_words()?;
        if !self.is_held_by(ballot, owner) {
            return Ok(Ok((GONE, nothing())));
        }
        let (lock, life) = (&self.locks[ballot], integer(ttl).ok_or_else(Broken::malformed)?);
        if self.pttl(lock) < float(life) {
            self.call.store.expire(lock, self.call.now + life, self.call.now);
        }
        Ok(Ok((KEPT, nothing())))
    }

    fn replace(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("replace");
        let [owner, ttl, token, field] = self.take_words()?;
        if self.holders[ballot].is_some() {
            return Ok(Ok((if self.is_held_by(ballot, owner) { KEPT } else { GONE }, nothing())));
        }
        let Some(fence) = number(&self.fence(field)?) else { return Ok(Err(not_a_fence())) };
        if fence < sent(token)? {
            self.set_fence(field, token)?;
        }
        Ok(self.set_lock(ballot, owner, ttl).map(|written| (if written { KEPT } else { GONE }, nothing())))
    }

    fn fence(&mut self, field: &[u8]) -> Result<Vec<u8>, Broken> {
        let Call { store, keys, now, .. } = &mut self.call;
        Ok(store.field(&keys[0], field, *now)?.unwrap_or(b"0").to_vec())
    }
}

/// The two lines of an answer.
fn told(voted: Voted) -> Vec<u8> {
    let (code, rest) = voted.unwrap_or_else(|error| (-1, error.into_bytes()));
    [code.to_string().as_bytes(), b"\n", &rest].concat()
}

fn time(millis: f64) -> Vec<u8> {
    whole(millis).into_bytes()
}

fn nothing() -> Vec<u8> {
    b"0".to_vec()
}

/// A number that a client sent.
pub(super) fn sent(word: &[u8]) -> Result<f64, Broken> {
    number(word).ok_or_else(Broken::malformed)
}

fn not_a_fence() -> String {
    "the fence is not a number".to_owned()
}

/// The field that counts for a lock, which a release does not tell.
fn fence_of(lock: &[u8]) -> String {
    LockKeys::new(&Arc::new(Keyspace::new("")), &String::from_utf8_lossy(lock)).fence().to_string()
}
