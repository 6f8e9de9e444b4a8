use std::sync::{Mutex, PoisonError};

use lock_core::Lease;

/// Sees who is inside. Everybody who holds the lock enters; the referee notes when two valid holders are inside at once,
/// and when a token is not larger than that of everyone who entered before. All in one process, under one mutex: the truth.
#[derive(Default)]
pub struct Referee {
    game: Mutex<Game>,
}

#[derive(Default)]
struct Game {
    inside: Vec<Lease>,
    tokens: Vec<u64>,
    fouls: Vec<String>,
}

impl Referee {
    /// Enters with a lease. False if it is not valid any more, in which case nobody entered.
    pub fn enter(&self, lease: &Lease) -> bool {
        let mut game = self.game.lock().unwrap_or_else(PoisonError::into_inner);
        if !lease.is_valid() {
            return false;
        }
        let token = lease.token().get();
        let valid: Vec<u64> =
            game.inside.iter().filter(|other| other.is_valid()).map(|other| other.token().get()).collect();
        if !valid.is_empty() {
            game.fouls.push(format!("{token} entered while {valid:?} held the lock"));
        }
        let largest = game.tokens.iter().max().copied().unwrap_or_default();
        if token <= largest {
            game.fouls.push(format!("token {token} was granted after {largest}"));
        }
        game.tokens.push(token);
        game.inside.push(lease.clone());
        true
    }

    /// Leaves, before the lock is released.
    pub fn leave(&self, lease: &Lease) {
        let mut game = self.game.lock().unwrap_or_else(PoisonError::into_inner);
        game.inside.retain(|other| other.token() != lease.token());
    }

    /// How many entered.
    #[must_use]
    pub fn entered(&self) -> usize {
        self.game.lock().unwrap_or_else(PoisonError::into_inner).tokens.len()
    }

    /// What was seen against the rules.
    #[must_use]
    pub fn fouls(&self) -> Vec<String> {
        self.game.lock().unwrap_or_else(PoisonError::into_inner).fouls.clone()
    }

    /// Fails the test if anything was seen against the rules.
    pub fn assert_fair(&self) {
        let fouls = self.fouls();
        assert!(
            fouls.is_empty(),
            "{} fouls in {} entries: {:?}",
            fouls.len(),
            self.entered(),
            &fouls[..fouls.len().min(5)]
        );
    }
}
