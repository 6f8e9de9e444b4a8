use std::time::Duration;

/// For how long the nodes' word that a lock is held lets further callers of the holder's process have it, without asking the nodes again:
/// readers that share it, and the next waiter to whom it is handed over. It counts from when the requests were sent that a majority
/// granted or extended. Longer than most replies take: what is longer costs a caller a request, and nothing else.
pub const WORD_TTL: Duration = Duration::from_millis(100);

/// Whether the nodes' word is still good for another caller, when this much time has passed since the requests were sent.
///
/// # Why nobody gets an evicted lock beside its successor
///
/// Let a majority W have given its word to requests that were sent at a time `t`. A caller that relies on it has the lock before `t` plus
/// [`WORD_TTL`]. The majority S that granted the lock to a successor has a node in common with W. That node had the key for the former
/// holder at some time after `t`, and not any more when it granted it to the successor. Either it was released, by a process that then
/// relies on no word; or it expired, a `ttl` later, when validity had ended; or it was evicted. Then the node granted it to nobody for
/// [`EVICTION_GAP`](crate::node::EVICTION_GAP) by its own clock, which is longer, whatever the drift. So the successor was granted the
/// lock when no caller relied on the word any more.
///
/// It does not hold for the caller whose own grant arrives that late: that one is renewed at once, and learns from the reply.
pub fn word_is_good(age: Duration) -> bool {
    age <= WORD_TTL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::EVICTION_GAP;
    use crate::quorum::drift;

    #[test]
    fn nobody_relies_on_a_word_that_is_older_than_the_gap_after_an_eviction() {
        assert!(WORD_TTL + drift(WORD_TTL) < EVICTION_GAP);
        assert!(word_is_good(WORD_TTL) && !word_is_good(EVICTION_GAP - drift(EVICTION_GAP)));
    }
}
