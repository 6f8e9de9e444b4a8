//! What a manager sees of its set, for people and as JSON.

use std::fmt::Write as _;

use futures_util::future::join_all;
use lock_core::masters::{Members, SeatState};
use lock_core::{Health, LockManager, NodeError};
use serde::Serialize;

use crate::table::columns;

/// What a manager sees.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Whether locks can be acquired.
    pub(crate) quorum: bool,
    /// Whether every seat is taken by a master that votes, and every master of the list has one.
    pub(crate) complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<SetReport>,
    /// Those of the other shards, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_shards: Vec<Option<SetReport>>,
    masters: Vec<MasterReport>,
}

#[derive(Serialize)]
pub(crate) struct SetReport {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) max_ttl_ms: u128,
    pub(crate) quarantine_ms: u128,
    seats: Vec<SeatReport>,
}

#[derive(Serialize)]
struct SeatReport {
    address: Option<String>,
    member: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    joins_in_ms: Option<u128>,
}

/// A master of the list.
#[derive(Serialize)]
struct MasterReport {
    address: String,
    answers: bool,
    votes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip)]
    is_joining: bool,
}

impl Report {
    pub(crate) async fn of(locks: &LockManager) -> Self {
        let (shards, health) =
            (join_all((0..locks.shards()).map(|shard| locks.members_of_shard(shard))).await, locks.health().await);
        let all_admitted = health.nodes.iter().all(|node| node.admitted);
        let all_seats_vote = |set: &Members| set.seats.iter().all(|seat| seat.state == SeatState::Votes);
        let all_sets_vote = shards.iter().all(|set| set.as_ref().is_some_and(all_seats_vote));
        let mut sets = shards.into_iter().map(|members| members.map(SetReport::of));
        Self {
            quorum: health.quorum,
            complete: all_admitted && all_sets_vote,
            set: sets.next().flatten(),
            further_shards: sets.collect(),
            masters: masters(health),
        }
    }

    /// Whether locks can be acquired, in words.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.quorum, self.further_shards.is_empty()) {
            (true, _) => "locks can be acquired",
            (false, true) => "no majority votes: no lock can be acquired",
            (false, false) => "in some shards no majority votes: their locks cannot be acquired",
        }
    }

    /// The masters of the list.
    pub(crate) fn health(&self) -> String {
        let rows: Vec<[String; 4]> = self.masters.iter().map(MasterReport::row).collect();
        format!("{}\n{}", self.verdict(), columns(["MASTER", "ANSWERS IN", "VOTES", "PROBLEM"], &rows))
    }

    /// Whether masters answer, and none of them knows a set.
    pub(crate) fn finds_no_set(&self) -> bool {
        self.set.is_none() && self.masters.iter().any(|master| master.answers)
    }

    /// Whether this holds for the set of each shard. Not if one of them is not known.
    pub(crate) fn all_sets(&self, holds: impl Fn(&SetReport) -> bool) -> bool {
        self.further_shards.iter().chain([&self.set]).all(|set| set.as_ref().is_some_and(&holds))
    }

    /// The seats of the set, and the masters of the list that have none.
    pub(crate) fn members(&self) -> String {
        let Some(set) = &self.set else { return format!("no set is known\n{}", self.health()) };
        let mut text = set.text();
        for (further, shard) in self.further_shards.iter().zip(1..) {
            let set = further.as_ref().map_or_else(|| "no set is known\n".to_owned(), SetReport::text);
            _ = write!(text, "shard {shard}: {set}");
        }
        let has_seat = |master: &MasterReport| {
            let mut sets = self.further_shards.iter().flatten().chain([set]);
            master.member.is_some() && sets.any(|set| set.seats.iter().any(|seat| seat.member == master.member))
        };
        // What a master with a seat waits for is in its row.
        for master in self.masters.iter().filter(|master| !(master.is_joining && has_seat(master))) {
            if let Some(problem) = &master.problem {
                _ = writeln!(text, "{}: {problem}", master.address);
            }
        }
        text
    }

    /// What is still to come, without figures that change all the time.
    pub(crate) fn outlook(&self) -> String {
        let state = |master: &MasterReport| match &master.problem {
            None => format!("  {} votes", master.address),
            Some(_) if master.is_joining => {
                format!("  {} joined, and votes when all locks have ended that were granted without it", master.address)
            }
            Some(problem) => format!("  {}: {problem}", master.address),
        };
        let set = self.set.as_ref().map_or_else(
            || "no set is known".to_owned(),
            |set| format!("generation {}, max_ttl {} ms", set.generation, set.max_ttl_ms),
        );
        [set].into_iter().chain(self.masters.iter().map(state)).collect::<Vec<_>>().join("\n")
    }

    /// What to do about what is missing.
    pub(crate) fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let silent: Vec<&str> =
            self.masters.iter().filter(|master| !master.answers).map(|master| &*master.address).collect();
        if !silent.is_empty() {
            advice.push(format!("start {}, or put other masters in their place in the list", silent.join(" and ")));
        }
        if self.masters.iter().any(|master| master.is_joining) {
            advice.push("wait: a quarantine is running, and nothing can shorten it".to_owned());
        }
        match &self.set {
            None if !silent.is_empty() => {
                advice.push("if no set was ever formed and they are gone for good: lockctl form".to_owned());
            }
            Some(_) if !self.quorum && !self.masters.iter().any(|master| master.is_joining) => {
                advice.push("if a majority of the members is gone for good: lockctl form".to_owned());
            }
            _ => {}
        }
        advice
    }
}

impl SetReport {
    fn of(members: Members) -> Self {
        let seats = members.seats.into_iter().map(|seat| SeatReport {
            state: match seat.state {
                SeatState::Votes => "votes",
                SeatState::Joining(_) => "joining",
                SeatState::Vacant => "vacant",
                _ => "absent",
            },
            joins_in_ms: match seat.state {
                SeatState::Joining(left) => Some(left.as_millis()),
                _ => None,
            },
            address: seat.address,
            member: seat.member,
        });
        Self {
            id: members.set,
            generation: members.generation,
            max_ttl_ms: members.max_ttl.as_millis(),
            quarantine_ms: members.quarantine.as_millis(),
            seats: seats.collect(),
        }
    }

    /// Why there is nothing to lower.
    pub(crate) fn is_short_already(&self, wanted_ms: u128) -> String {
        let Self { max_ttl_ms, .. } = self;
        if *max_ttl_ms == wanted_ms {
            return format!("max_ttl is {max_ttl_ms} ms already");
        }
        format!(
            "max_ttl is {max_ttl_ms} ms, shorter than {wanted_ms} ms already; to raise it, start the services with a longer max_ttl"
        )
    }

    fn text(&self) -> String {
        let Self { id, generation, max_ttl_ms, quarantine_ms, seats } = self;
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let state = |seat: &SeatReport| match seat.joins_in_ms {
            Some(left) => format!("joins in {left} ms"),
            None => seat.state.to_owned(),
        };
        let row = |(index, seat): (usize, &SeatReport)| {
            [(index + 1).to_string(), cell(&seat.address), cell(&seat.member), state(seat)]
        };
        let rows: Vec<[String; 4]> = seats.iter().enumerate().map(row).collect();
        format!(
            "set {id}, generation {generation}, max_ttl {max_ttl_ms} ms, quarantine {quarantine_ms} ms\n{}",
            columns(["SEAT", "ADDRESS", "MEMBER", "STATE"], &rows)
        )
    }
}

impl MasterReport {
    fn row(&self) -> [String; 4] {
        let round_trip = self.round_trip_us.map_or_else(|| "-".to_owned(), |micros| format!("{micros} us"));
        let votes = if self.votes { "yes" } else { "no" };
        [self.address.clone(), round_trip, votes.to_owned(), self.problem.clone().unwrap_or_default()]
    }
}

fn masters(health: Health) -> Vec<MasterReport> {
    let master = |node: lock_core::NodeHealth| MasterReport {
        address: node.name,
        answers: node.reachable,
        votes: node.admitted,
        round_trip_us: node.round_trip.map(|round_trip| round_trip.as_micros()),
        member: node.member,
        is_joining: matches!(node.problem, Some(NodeError::Quarantined { .. })),
        problem: node.problem.map(|problem| problem.to_string()),
    };
    health.nodes.into_iter().map(master).collect()
}
