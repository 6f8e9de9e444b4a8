//! The nodes of one set: who they are, the state of each, and their clock.

mod answers;
mod clock;
mod cluster;
mod complaint;
mod events;
mod first_contact;
mod inspecting;
mod look;
mod member;
mod membership;
mod node_set;
mod ordered_watch;
mod send;
mod shards;
mod states;
mod test_vote;

use self::answers::Answers;
pub(crate) use self::cluster::{Cluster, SHUT_DOWN};
use self::complaint::Complaint;
pub(crate) use self::look::{Epochs, LOOK_TIMEOUT, next_roster};
pub(crate) use self::member::{Member, MemberState};
pub(crate) use self::node_set::{MAX_NODES, NodeSet};
pub(crate) use self::ordered_watch::OrderedWatch;
pub(crate) use self::send::Outbox;
pub(crate) use self::shards::{Beside, ShardSource};
