use crate::node::Keyspace;
use crate::options::OTHER;
use crate::waiting::Turns;

/// A resource that callers of a manager wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Its name.
    pub resource: String,
    /// What the name was made from, according to the caller that came first; `other` if that is not known.
    pub template: String,
    /// Whether they wait for a [permit](crate::LockManager::permits), and not for the lock.
    pub permits: bool,
    /// How many have asked and do not hold it.
    pub callers: usize,
}

pub(crate) fn waiting(turns: &Turns, keyspace: &Keyspace) -> Vec<Waiting> {
    let waiting = turns.waiting().into_iter().map(|(queue, template, callers)| Waiting {
        resource: keyspace.resource_of_queue(&queue).to_owned(),
        permits: keyspace.is_of_slots(&queue),
        template: template.as_deref().unwrap_or(OTHER).to_owned(),
        callers,
    });
    waiting.collect()
}
