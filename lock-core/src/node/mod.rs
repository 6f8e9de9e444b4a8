//! One master, as the engine sees it: for authors of nodes.
//!
//! **Unstable**: everything in this module may change in a minor release. Users of locks need none of it.
//!
//! [`LockNode`] is all that the engine knows of a master. `RedisNode` is a Redis or Valkey server, [`MemoryNode`] a
//! master inside this process. Both carry out the same [`Operation`]s by the same rules. [`writing`] says how to write another one.
//! With the feature `conformance`, the module of that name compares a node with the rules.

mod cluster_slot;
#[cfg(feature = "conformance")]
pub mod conformance;
mod credentials;
mod forward;
mod invalid_setting;
mod invalid_url;
mod keyspace;
mod limits;
mod link;
mod lock_node;
mod look;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod record_fields;
#[cfg(feature = "redis")]
mod redis;
mod replies;
mod reply;
mod reply_sender;
mod request;
mod roster;
mod slots;
mod submission;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod tcp;
#[cfg(any(feature = "redis", feature = "postgres"))]
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod vote_timer;
pub mod writing;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use self::credentials::Credentials;
pub(crate) use self::credentials::CredentialsProvider;
pub use self::invalid_setting::InvalidSetting;
pub use self::invalid_url::InvalidUrl;
#[cfg(any(feature = "redis", feature = "postgres"))]
use self::invalid_url::are_several;
pub(crate) use self::keyspace::ByQueue;
pub use self::keyspace::{Keyspace, LockKeys};
pub(crate) use self::limits::{MAX_READERS_SEEN, MAX_RESERVATIONS, MAX_TOKEN};
pub use self::lock_node::LockNode;
pub use self::look::{EVICTION_GAP, Evict, Eviction, Holder, HolderTag, LockState, Look, Reader};
pub use self::memory::{MemoryBackup, MemoryNode};
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresNode;
pub use self::record::{FenceReading, FoundRecord, Inspection, NodeRecord, Quarantine, RecordWrite};
#[cfg(feature = "redis")]
pub use self::redis::{InvalidReplication, RedisNode};
#[cfg(feature = "redis")]
#[doc(hidden)]
pub use self::redis::{Network, script_sources};
pub(crate) use self::replies::{MajorityTimer, Replies};
pub use self::reply::{NodeFuture, Position, RESERVATION_TTL, Reply, Wakeup, Wakeups};
pub use self::reply_sender::ReplySender;
pub use self::request::{Operation, QueuePosition, Request};
pub(crate) use self::roster::whole_millis;
pub use self::roster::{Ballot, Division, MemberId, Roster, Seat, SetId};
pub use self::slots::{SlotOffer, Slots};
pub(crate) use self::vote_timer::VoteReporter;
#[cfg(feature = "zookeeper")]
pub use self::zookeeper::ZooKeeperNode;
pub use crate::error::{NodeError, NotMember, Refusal};
pub use crate::kind::Kind;
pub use crate::random::{Epoch, OwnerId, WaiterId};
