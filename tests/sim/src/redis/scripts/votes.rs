use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lock_core::node::{Keyspace, LockKeys};

use super::Call;
use super::lua::{Broken, float, number, set_new, texts, whole};
use crate::redis::commands::integer;
use crate::redis::flaw::Flaw;
use crate::redis::resp::Answer;

/// 2^53 - 1: beyond it, Lua can not tell a number from the next.
const LARGEST_FENCE: f64 = 9_007_199_254_740_991.0;

/// The line that answers a ballot, or why it failed.
type Voted = Result<Vec<u8>, String>;

/// The script of the votes while it runs. Ballots are told by their place, from 0 on.
pub(super) struct Votes<'a> {
    pub(super) call: Call<'a>,
    pub(super) waiter: &'a [u8],
    /// The locks of the ballots.
    pub(super) locks: &'a [Vec<u8>],
    /// Who holds them.
    holders: Vec<Option<Vec<u8>>>,
    /// What becomes of the places of those that release.
    pub(super) place: Option<&'a [u8]>,
    /// Since when those of them wait on that keep it.
    pub(super) since: BTreeMap<usize, f64>,
    /// The list of the locks that may be waited for.
    pub(super) waited: Option<Vec<u8>>,
    /// The ballots that are for such.
    pub(super) looked_at: BTreeSet<usize>,
    /// Of those the queue and the turn.
    pub(super) lines: BTreeMap<usize, [Option<Vec<u8>>; 2]>,
    /// Whether the list was seen to live long enough.
    pub(super) noted: bool,
    /// How many pairs there are, and how many ballots that release.
    pub(super) pairs: usize,
    pub(super) releases: usize,
    /// The words of the ballots that are to come.
    words: &'a [Vec<u8>],
    answers: BTreeMap<usize, Voted>,
}

/// What is to be written for an acquire that is granted.
struct Grant<'a> {
    ballot: usize,
    field: &'a [u8],
    fence: Vec<u8>,
    owner: &'a [u8],
    since: f64,
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
            return Ok(Answer::text("U"));
        }
        let mut fences = Vec::new();
        for field in fields {
            fences.push((field.as_slice(), store.field(meta, field, now)?.unwrap_or(b"0").to_vec()));
        }
        let in_quarantine = matches!(store.get(quarantine, now), Ok(Some(_)));
        let waited = texts(store, std::slice::from_ref(queued), now).remove(0);
        let holders = texts(store, locks, now);
        let mut votes = Self {
            call,
            waiter,
            locks,
            holders,
            place: None,
            since: BTreeMap::new(),
            waited,
            looked_at: BTreeSet::new(),
            lines: BTreeMap::new(),
            noted: false,
            pairs,
            releases,
            words,
            answers: BTreeMap::new(),
        };

        if releases > 0 {
            let [place] = votes.take_words()?;
            votes.place = Some(place);
        }
        for ballot in 0..releases {
            votes.release(ballot)?;
        }
        for pair in 0..pairs {
            votes.holders[releases + pair] = texts(votes.call.store, &locks[pair..=pair], now).remove(0);
        }
        let of_acquires = if acquires > 0 { 2 + 3 * acquires } else { 0 };
        let (of_acquires, of_the_rest) = votes.words.split_at_checked(of_acquires).ok_or_else(Broken::malformed)?;
        votes.words = of_the_rest;
        votes.busy(releases + acquires)?;
        votes.words = of_acquires;
        votes.acquires(releases, &fences, in_quarantine)?;
        Ok(Answer::text(votes.answers.into_values().map(told).collect::<Vec<_>>().join(&b'\n')))
    }

    /// `busy.lua` and what is in its block, for so many ballots that release or acquire. Where nothing is held or waited for, it
    /// comes to nothing.
    fn busy(&mut self, count: usize) -> Result<(), Broken> {
        let too_many = self.waited.as_deref() == Some(b"*");
        self.looked_at = (0..self.locks.len()).filter(|ballot| too_many || self.listed(*ballot).is_some()).collect();
        self.read_lines();
        for ballot in 0..self.releases {
            if self.place == Some(b"keep") || self.looked_at.contains(&ballot) {
                let deleted = self.answers.get(&ballot) == Some(&line("D", b""));
                let place = self.place;
                self.move_on(ballot, place, deleted || self.holders[ballot].is_none());
            }
        }
        if self.pairs > 0 {
            self.read_lines();
        }
        for ballot in count..self.locks.len() {
            let voted = self.other(ballot)?;
            self.answers.insert(ballot, voted);
        }
        Ok(())
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
        if fences.is_empty() {
            return Ok(());
        }
        let [ttl, tokens] = self.take_words()?;
        let mut granted = Vec::new();
        for (ballot, (field, text)) in (from..).zip(fences) {
            self.call.count("acquire");
            let [owner, last, since] = self.take_words()?;
            let since = sent(since)?;
            let voted = match number(text) {
                _ if in_quarantine => line("Q", time(self.pttl(&self.call.keys[1]))),
                None => Err(not_a_fence()),
                Some(_) if self.is_held_by(ballot, owner) => Ok(text.clone()),
                Some(fence) => {
                    let held = self.holders[ballot].is_some();
                    let waits = held || self.looked_at.contains(&ballot);
                    let free_in = waits.then(|| self.kept_from(ballot, held, since)).flatten();
                    let (number, fence) = self.next(fence, last, sent(tokens)?)?;
                    match free_in {
                        Some(free_in) => line("H", time(free_in)),
                        None if number > LARGEST_FENCE => Err("the fence is used up".to_owned()),
                        None => {
                            granted.push(Grant { ballot, field, fence: fence.clone(), owner, since });
                            Ok(fence)
                        }
                    }
                }
            };
            self.answers.insert(ballot, voted);
        }
        for Grant { ballot, field, fence, owner, since } in granted {
            self.set_fence(field, &fence)?;
            match self.set_lock(ballot, owner, ttl) {
                Err(error) => _ = self.answers.insert(ballot, Err(error)),
                Ok(false) => {
                    let held = line("H", time(self.pttl(&self.locks[ballot])));
                    self.answers.insert(ballot, held);
                }
                Ok(true) if since > 0.0 && self.looked_at.contains(&ballot) => self.end_turn(ballot),
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

    /// `release.lua`
    fn release(&mut self, ballot: usize) -> Result<(), Broken> {
        self.call.count("release");
        let [owner] = self.take_words()?;
        if self.place == Some(b"keep") {
            let [since] = self.take_words()?;
            self.since.insert(ballot, sent(since)?);
        }
        let (flaw, free) = (self.call.flaw, self.holders[ballot].is_none());
        let ours = self.is_held_by(ballot, owner) || flaw == Some(Flaw::ReleasesForAnyone) && !free;
        if ours && flaw != Some(Flaw::IgnoresReleases) {
            self.call.store.delete(&self.locks[ballot], self.call.now);
        }
        if ours && flaw == Some(Flaw::ForgetsFences) {
            let field = fence_of(&self.locks[ballot]);
            self.call.store.delete_field(&self.call.keys[0], field.as_bytes(), self.call.now)?;
        }
        self.answers.insert(ballot, line(if ours { "D" } else { "N" }, b""));
        Ok(())
    }

    /// `end_of_busy.lua`, for one of them
    fn other(&mut self, ballot: usize) -> Result<Voted, Broken> {
        let [kind] = self.take_words()?;
        match kind {
            b"C" => self.confirm(ballot),
            b"E" => self.extend(ballot),
            b"L" => {
                let free = self.holders[ballot].is_none();
                self.move_on(ballot, Some(b"leave"), free);
                Ok(line("L", b""))
            }
            _ => self.replace(ballot),
        }
    }

    fn confirm(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("confirm");
        let [owner, wanted, field] = self.take_words()?;
        let text = self.fence(field)?;
        let Some(fence) = number(&text) else { return Ok(Err(not_a_fence())) };
        if !self.is_held_by(ballot, owner) || fence > sent(wanted)? {
            return Ok(line("R", text));
        }
        self.set_fence(field, wanted)?;
        Ok(line("C", b""))
    }

    fn extend(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("extend");
        let [owner, ttl] = self.take_words()?;
        if !self.is_held_by(ballot, owner) {
            return Ok(line("G", b""));
        }
        let (lock, life) = (&self.locks[ballot], integer(ttl).ok_or_else(Broken::malformed)?);
        if self.pttl(lock) < float(life) {
            self.call.store.expire(lock, self.call.now + life, self.call.now);
        }
        Ok(line("K", b""))
    }

    fn replace(&mut self, ballot: usize) -> Result<Voted, Broken> {
        self.call.count("replace");
        let [owner, ttl, token, field] = self.take_words()?;
        if self.holders[ballot].is_some() {
            return Ok(kept(self.is_held_by(ballot, owner)));
        }
        let Some(fence) = number(&self.fence(field)?) else { return Ok(Err(not_a_fence())) };
        if fence < sent(token)? {
            self.set_fence(field, token)?;
        }
        Ok(self.set_lock(ballot, owner, ttl).and_then(kept))
    }

    fn fence(&mut self, field: &[u8]) -> Result<Vec<u8>, Broken> {
        let Call { store, keys, now, .. } = &mut self.call;
        Ok(store.field(&keys[0], field, *now)?.unwrap_or(b"0").to_vec())
    }
}

/// The answer that a letter, and what belongs to it, make.
fn line(letter: &str, detail: impl AsRef<[u8]>) -> Voted {
    Ok([letter.as_bytes(), detail.as_ref()].concat())
}

fn kept(kept: bool) -> Voted {
    line(if kept { "K" } else { "G" }, b"")
}

/// An answer as it is told.
fn told(voted: Voted) -> Vec<u8> {
    voted.unwrap_or_else(|error| [b"E", error.as_bytes()].concat())
}

fn time(millis: f64) -> Vec<u8> {
    whole(millis).into_bytes()
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
