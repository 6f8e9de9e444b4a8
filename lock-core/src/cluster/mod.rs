//! The nodes of one set: who they are, the state of each, and their clock.

mod cluster;
mod events;
mod member;
mod membership;
mod node_set;
mod ordered_watch;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::member::{Member, MemberState, VotesBy};
pub(crate) use self::node_set::{MAX_NODES, NodeSet};
pub(crate) use self::ordered_watch::OrderedWatch;
