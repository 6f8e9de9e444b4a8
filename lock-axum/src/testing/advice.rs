//! What to do about a schedule that breaks the check.

use super::question::Question;
use super::schedule::{Schedule, letter};

pub(super) fn advice(schedule: &Schedule, takes_locks: bool) -> String {
    let facts = &schedule.facts;
    let held = letter(schedule.request);
    match schedule.question {
        Question::Race | Question::Unlocked if !takes_locks => {
            "No request takes a lock. Guard what has to happen alone: #[distributed_lock(resource = \"..\")], or let the database do it."
                .to_owned()
        }
        Question::Race | Question::Unlocked => match names_that_differ(schedule) {
            Some(names) => format!("{names}: locks exclude each other only if their names are the same."),
            None if schedule.step.is_none() => format!(
                "{held} has answered, and its work goes on without the lock: await it in the handler."
            ),
            None if facts.excluded => format!(
                "Another request waited for the lock of {held}, and the check is false all the same. Either what that one had read before was stale: read after the lock is taken. Or {held} has answered, and its work goes on without the lock: await it in the handler."
            ),
            None if facts.held_a_lock => format!(
                "{held} holds a lock at this step, and the others go on: they take none, only to read, or a permit. Writers need the lock alone."
            ),
            None => format!(
                "{held} holds no lock at this step: what it read before, or writes after, is not guarded. Take the lock before the first read, and release it after the commit."
            ),
        },
        Question::HangUp => format!(
            "{held} was dropped at this step, and its work is half done. Write in one transaction, or let the handler finish (on_disconnect = \"finish\")."
        ),
        Question::Lost if facts.succeeded => format!(
            "{held} went on without its lock, and succeeded. Let the loss cancel it (on_lost = \"cancel\"), and claim the fence where it writes (lock_axum::fence)."
        ),
        Question::Lost => format!(
            "What {held} had begun was written after its lock was lost. Claim the fence in the transaction that writes (lock_axum::fence)."
        ),
        Question::Frozen => format!(
            "{held} wrote after the next holder had read: no lock can prevent that. Claim the fence in each transaction, before it reads (lock_axum::fence)."
        ),
    }
}

/// Two requests that locked different things, and nothing in common.
fn names_that_differ(schedule: &Schedule) -> Option<String> {
    let resources = &schedule.facts.resources;
    let held = resources.get(schedule.request)?;
    let (other, others) = resources.iter().enumerate().find(|(index, names)| {
        *index != schedule.request && !names.is_empty() && !held.is_empty() && names.is_disjoint(held)
    })?;
    let list = |names: &std::collections::BTreeSet<String>| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    Some(format!("{} locks {}, and {} locks {}", letter(schedule.request), list(held), letter(other), list(others)))
}
