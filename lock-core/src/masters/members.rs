use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, MemberState};
use crate::error::{NodeError, left};
use crate::limits::{MAX_TTL, OutOfRange};
use crate::node::{MemberId, Roster, whole_millis};
use crate::quorum::{Change, quarantine_length};
use crate::task::OnDrop;

/// How often it is checked whether a change was made.
const POLL: Duration = Duration::from_millis(50);

/// The members of a set of masters, as the manager sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Members {
    /// The id of the set, drawn when it was formed.
    pub set: String,
    /// The number of the roster: it grows by one with each change.
    pub generation: u64,
    /// The longest time to live of any lock.
    pub max_ttl: Duration,
    /// For how long a master that joins grants nothing.
    pub quarantine: Duration,
    /// The seats. A majority of these is needed, whether they are taken or not.
    pub seats: Vec<Seat>,
    /// The masters of the manager's list that do not have a seat, with the reason and the remedy.
    pub others: Vec<(String, NodeError)>,
}

/// A seat of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat {
    /// The id of the member. It stands for what the master remembers: a master that lost its data gets another one.
    pub member: Option<String>,
    /// The address of the master in the list of the client that added it.
    pub address: Option<String>,
    /// The state of the master.
    pub state: SeatState,
}

/// The state of a master with a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeatState {
    /// It votes.
    Votes,
    /// It joined, and grants nothing for this long, or longer.
    Joining(Duration),
    /// It does not answer, or is not in this manager's list.
    Absent,
    /// Nobody has the seat.
    Vacant,
}

impl fmt::Display for SeatState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Votes => write!(f, "votes"),
            Self::Joining(time) => write!(f, "joins in {}", left(*time)),
            Self::Absent => write!(f, "absent"),
            Self::Vacant => write!(f, "vacant"),
        }
    }
}

/// Asks all nodes, and says who the members are; `None` if no set is known.
pub(crate) async fn members(cluster: Arc<Cluster>) -> Option<Members> {
    cluster.all_joined().await;
    cluster.inspect_all().await;
    let state_of = |member: MemberId| match cluster.membership().node_of(member) {
        None => SeatState::Absent,
        Some(node) => match cluster.state(node) {
            MemberState::Admitted { .. } => SeatState::Votes,
            MemberState::Quarantined(until) => SeatState::Joining(until.saturating_duration_since(Instant::now())),
            _ => SeatState::Absent,
        },
    };
    let roster = cluster.membership().roster().cloned()?;
    let seats = roster.seats.iter().map(|seat| match seat {
        None => Seat { member: None, address: None, state: SeatState::Vacant },
        Some(seat) => Seat {
            member: Some(seat.member.to_string()),
            address: Some(seat.address.clone()),
            state: state_of(seat.member),
        },
    });
    let seats = seats.collect();
    let has_seat = |state: &MemberState| matches!(state, MemberState::Admitted { .. } | MemberState::Quarantined(_));
    let others = cluster.members.iter().enumerate().filter_map(|(node, member)| {
        let state = cluster.state(node);
        (!has_seat(&state)).then(|| Some((member.node.name().to_owned(), state.problem()?)))?
    });
    Some(Members {
        set: roster.set.to_string(),
        generation: roster.generation,
        max_ttl: roster.max_ttl,
        quarantine: quarantine_length(roster.quarantine_ttl),
        others: others.collect(),
        seats,
    })
}

/// Lowers the longest time to live of the set, waits until all longer locks have ended, and lowers the quarantine.
pub(crate) async fn lower_max_ttl(cluster: Arc<Cluster>, own: Duration, max_ttl: Duration) -> Result<(), OutOfRange> {
    OutOfRange::check("max_ttl", max_ttl, own, MAX_TTL)?;
    // Any other is not what a master replies when it is read again, and so no roster that it is a member of.
    let max_ttl = whole_millis(max_ttl);
    let is_lower = |roster: &Roster| roster.max_ttl <= max_ttl;
    let mut lowered = change(&cluster, Change::LowerMaxTtl(max_ttl), is_lower).await;
    while is_lower(&lowered) && lowered.max_ttl < lowered.quarantine_ttl {
        // Locks that were granted before may live for that long, and a node that forgets them must sit out all of it.
        sleep(quarantine_length(lowered.quarantine_ttl)).await;
        let generation = lowered.generation;
        // If there was another change in between, longer locks may have been granted: the wait begins again.
        lowered =
            change(&cluster, Change::LowerQuarantine { generation }, |roster| roster.generation > generation).await;
    }
    Ok(())
}

/// Asks for a change, and waits until the roster is as wanted and in use. Returns the roster.
///
/// # Cancel safety
///
/// If it is dropped, the change is not asked for any more. It may be in progress, and then it is completed.
async fn change(cluster: &Cluster, change: Change, is_done: impl Fn(&Roster) -> bool) -> Roster {
    // When nobody waits for it any more. The manager would otherwise undo for ever what another one needs.
    let _withdraw = OnDrop(|| cluster.membership().withdraw(change));
    loop {
        let roster = cluster.membership().roster().filter(|roster| is_done(roster)).cloned();
        if let Some(roster) = roster.filter(|_| cluster.has_quorum()) {
            return roster;
        }
        // Again and again: another call may have asked for another one instead.
        cluster.request(change);
        sleep(POLL).await;
    }
}
