use crate::node::Keyspace;
use crate::options::OTHER;
use crate::waiting::LocalQueues;

/// A resource that callers of a manager wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Its name.
    pub resource: String,
    /// What the name was made from, according to the caller that came first; `other` if that is not known.
    pub template: String,
    /// How many have asked for the lock and do not hold it.
    pub callers: usize,
}

pub(super) fn waiting(queues: &LocalQueues, keyspace: &Keyspace) -> Vec<Waiting> {
    let waiting = queues.waiting().into_iter().map(|(lock_key, template, callers)| Waiting {
        resource: keyspace.resource_of(&lock_key).to_owned(),
        template: template.as_deref().unwrap_or(OTHER).to_owned(),
        callers,
    });
    waiting.collect()
}
