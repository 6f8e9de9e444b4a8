//! How many shards there are: what keeps clients apart that count differently.
//!
//! The roster of each shard records the number, and a client with another one is refused there. But a shard without a roster refuses
//! nobody. So a client forms none in another shard before it has seen the first one with its own number; and none in the first one,
//! which all clients have, before it has asked all others that there may be.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{StreamExt as _, iter};
use tokio::time::{Instant, sleep_until};

use super::Cluster;
use super::inspecting::{BACKOFF, CHECK_INTERVAL, within_timeout};
use crate::error::NodeError;
use crate::mutex::Mutex;
use crate::node::{Division, Keyspace, LockNode};
use crate::quorum::majority;

/// How many shards are asked at a time: some nodes make a connection for each.
const AT_A_TIME: usize = 16;

/// What a shard has to do with the others.
pub(crate) enum Beside {
    /// The first one asks the others.
    First(OtherShards),
    /// Another one waits for the first.
    Behind(Arc<Cluster>),
}

/// The shards that there may be beside the first.
pub(crate) struct OtherShards {
    shards: Range<u32>,
    find: Box<dyn Fn(u32) -> ShardSource + Send + Sync>,
    asked: Mutex<Asked>,
}

/// Where a shard is, if there is one, and what its records have to say of it. Where there can be none, it has no nodes.
pub(crate) struct ShardSource {
    pub(crate) keyspace: Keyspace,
    pub(crate) nodes: Vec<Arc<dyn LockNode>>,
    pub(crate) division: Division,
}

/// When the other shards were asked.
struct Asked {
    /// When none of them had another number.
    agreed: Option<Instant>,
    /// When they may be asked again.
    again: Option<Instant>,
    /// The pause before that. It doubles.
    pause: Duration,
}

impl Beside {
    /// The first of at most this many shards.
    pub(crate) fn first(most: u32, find: impl Fn(u32) -> ShardSource + Send + Sync + 'static) -> Self {
        let asked = Mutex::new(Asked { agreed: None, again: None, pause: BACKOFF.0 });
        Self::First(OtherShards { shards: 1..most, find: Box::new(find), asked })
    }

    /// The shard after this one.
    pub(crate) fn next(cluster: &Arc<Cluster>) -> Self {
        Self::Behind(Arc::clone(match &cluster.beside {
            Self::First(_) => cluster,
            Self::Behind(first) => first,
        }))
    }

    /// For unit tests: a set without shards.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Self::first(1, |_| ShardSource {
            keyspace: Keyspace::new(""),
            nodes: Vec::new(),
            division: Division::default(),
        })
    }
}

impl Cluster {
    /// Whether a set may be formed here if there is none.
    pub(super) fn may_form(&self) -> bool {
        match &self.beside {
            Beside::First(others) => others.asked.lock().agreed.is_some_and(|agreed| agreed.elapsed() < CHECK_INTERVAL),
            Beside::Behind(first) => first.membership().is_of_same_shards(),
        }
    }

    /// Whether it is being found out for the first time whether a set may be formed here. Others may form it meanwhile, and what was read of its
    /// nodes tells little then.
    pub(super) fn is_comparing(&self) -> bool {
        match &self.beside {
            Beside::First(others) => self.membership().wants_to_form() && others.asked.lock().again.is_none(),
            Beside::Behind(first) => self.membership().wants_to_form() && first.is_comparing(),
        }
    }

    /// Finds out, without end, whether a set may be formed here when there is none.
    pub(super) async fn compare_shards(&self) {
        loop {
            self.published_until(|| self.membership().wants_to_form() && !self.may_form()).await;
            match &self.beside {
                Beside::First(others) => self.ask(others).await,
                Beside::Behind(first) => first.published_until(|| self.may_form()).await,
            }
            self.changed.notify_one();
        }
    }

    /// Asks the other shards how many there are.
    async fn ask(&self, OtherShards { shards, find, asked }: &OtherShards) {
        let again = asked.lock().again;
        if let Some(again) = again {
            sleep_until(again).await;
        }
        let asking = shards.clone().map(|shard| ask_shard(shard, find(shard)));
        let answers: Vec<_> = iter(asking).buffer_unordered(AT_A_TIME).collect().await;

        let other = answers.iter().flatten().find_map(|other| *other);
        let failed = answers.into_iter().find_map(Result::err);
        self.membership().note_elsewhere(other);
        for member in &self.members {
            let mut last = member.last_inspection.lock();
            match &failed {
                Some(error) => _ = last.record.note(error),
                None => _ = last.record.resolve(),
            }
        }
        let (now, mut asked) = (Instant::now(), asked.lock());
        asked.agreed = (other.is_none() && failed.is_none()).then_some(now);
        // Another number lasts.
        let pause = if other.is_some() { CHECK_INTERVAL } else { asked.pause };
        (asked.again, asked.pause) = (Some(now + self.random.jitter(pause)), (asked.pause * 2).min(BACKOFF.1));
    }
}

/// What the nodes of a shard have recorded, beside what they should have, if that is something else and a majority of them answers.
async fn ask_shard(shard: u32, source: ShardSource) -> Result<Option<(Division, Division)>, NodeError> {
    let ShardSource { keyspace, nodes, division } = source;
    let keyspace = Arc::new(keyspace);
    let asked = nodes.iter().map(|node| within_timeout(node.inspect(&keyspace)));
    // Of a node that must not be used, or whose user may not read that record, nothing will ever be known.
    let is_final = |seen: &Result<_, NodeError>| matches!(seen, Ok(_) | Err(NodeError::Refused(_)));
    let (seen, silent): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().partition(is_final);
    if let Some(error) = silent.into_iter().find_map(Result::err)
        && seen.len() < majority(nodes.len())
    {
        let reason = format!("shard {shard} cannot be asked how many there are: {error}");
        return Err(NodeError::Unreachable { reason });
    }
    let mut recorded = seen.iter().flatten().filter_map(|seen| Some(seen.record.get()?.roster.as_ref()?.division));
    Ok(recorded.find(|other| *other != division).map(|other| (division, other)))
}
