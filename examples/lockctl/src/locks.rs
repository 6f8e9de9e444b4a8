//! What the masters have of one lock, and taking it from its holder: for people and as JSON.

use std::error::Error;
use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::inspection::{ForcedRelease, HolderTag, LockOnNode, LockReport, LockVerdict};
use lock_core::limits::MAX_PERMITS;
use lock_core::{LockError, LockManager};
use serde::Serialize;
use tokio::time::timeout;

use crate::args::SetArgs;
use crate::output::print;
use crate::table::columns;

#[derive(Serialize)]
struct Inspected {
    resource: String,
    verdict: String,
    holder: Option<String>,
    /// How many readers hold it, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<usize>,
    masters: Vec<OnMaster>,
    /// The permits that are held. `None` in the report of a permit.
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<Vec<Self>>,
}

#[derive(Serialize)]
struct OnMaster {
    address: String,
    votes: bool,
    holder: Option<String>,
    readers: Vec<String>,
    stranger: bool,
    remaining_ms: Option<u128>,
    fence: Option<u64>,
    waiters: u32,
    evicted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Forced {
    resource: String,
    token: u64,
    evicted: Vec<String>,
    freed_on: Vec<String>,
}

/// Shows what the masters have of a lock and of its permits. Returns whether a majority replied.
pub(crate) async fn inspect(set: &SetArgs, locks: &LockManager, name: &str) -> Result<bool, Box<dyn Error>> {
    let looking = async {
        let report = locks.inspect(name).await?;
        let permits = if report.resource.ends_with('}') { None } else { Some(held_permits(locks, name).await?) };
        Ok::<_, LockError>((report, permits))
    };
    let Some(looked) = in_time(set, looking).await else { return Ok(false) };
    let (report, permits) = looked?;
    let replied = report.verdict() != LockVerdict::NoQuorum;
    let inspected = Inspected { permits, ..Inspected::of(report) };
    Ok(print(set, &inspected, || inspected.text())? && replied)
}

/// The permits that are not free, in the order of their slots. Nothing on the masters says how many a resource has.
async fn held_permits(locks: &LockManager, name: &str) -> Result<Vec<Inspected>, LockError> {
    let slots = (0..MAX_PERMITS).map(|slot| locks.inspect(format!("{name}{{{slot}}}")));
    let reports = try_join_all(slots).await?;
    let is_held = |report: &LockReport| !matches!(report.verdict(), LockVerdict::Free | LockVerdict::NoQuorum);
    Ok(reports.into_iter().filter(is_held).map(Inspected::of).collect())
}

/// Takes a lock from its holder. Returns whether it was taken.
pub(crate) async fn force_release(set: &SetArgs, locks: &LockManager, name: &str) -> Result<bool, Box<dyn Error>> {
    let Some(forced) = in_time(set, locks.force_release(name)).await else { return Ok(false) };
    match forced {
        Ok(forced) => {
            let forced = Forced::of(name, forced);
            print(set, &forced, || forced.text())
        }
        Err(error @ (LockError::InvalidResource { .. } | LockError::ShuttingDown { .. })) => Err(error.into()),
        Err(error) => {
            say!("lockctl: {error}");
            Ok(false)
        }
    }
}

async fn in_time<T>(set: &SetArgs, work: impl Future<Output = T>) -> Option<T> {
    let done = timeout(set.timeout.unwrap_or(Duration::MAX), work).await.ok();
    if done.is_none() {
        say!("no answer within the timeout");
    }
    done
}

fn tags(holders: &[HolderTag]) -> Vec<String> {
    holders.iter().map(ToString::to_string).collect()
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn readers_of(count: usize) -> String {
    format!("{count} reader{}", if count == 1 { "" } else { "s" })
}

fn permits_text(permits: &[Inspected]) -> String {
    // All slots of a resource have one queue.
    let waiters =
        permits.iter().flat_map(|permit| &permit.masters).map(|master| master.waiters).max().unwrap_or_default();
    let rows: Vec<[String; 6]> = permits.iter().map(Inspected::permit_row).collect();
    let table = columns(["PERMIT", "STATE", "HOLDER", "REMAINING", "FENCE", "MASTERS"], &rows);
    format!("\npermits that are held: {}, and {waiters} processes wait\n{table}", permits.len())
}

impl Inspected {
    fn of(report: LockReport) -> Self {
        let readers = match report.verdict() {
            LockVerdict::Shared { readers } => Some(readers),
            _ => None,
        };
        Self {
            readers,
            verdict: report.verdict().to_string(),
            resource: report.resource,
            holder: report.holder.map(|holder| holder.to_string()),
            masters: report.nodes.into_iter().map(OnMaster::of).collect(),
            permits: None,
        }
    }

    fn text(&self) -> String {
        let readers = self.readers.map(|readers| format!(" by {}", readers_of(readers)));
        let holder = self.holder.as_ref().map(|holder| format!(" by {holder}")).or(readers).unwrap_or_default();
        let rows: Vec<[String; 7]> = self.masters.iter().map(OnMaster::row).collect();
        let head = ["MASTER", "VOTES", "HOLDER", "REMAINING", "FENCE", "WAITERS", "PROBLEM"];
        let permits = self.permits.as_deref().filter(|permits| !permits.is_empty()).map(permits_text);
        format!("{}: {}{holder}\n{}{}", self.resource, self.verdict, columns(head, &rows), permits.unwrap_or_default())
    }

    /// A permit, in a row: each master's view is in the report of the permit alone.
    fn permit_row(&self) -> [String; 6] {
        let holding: Vec<&OnMaster> =
            self.masters.iter().filter(|master| master.holder.is_some() && master.holder == self.holder).collect();
        [
            self.resource.clone(),
            self.verdict.clone(),
            cell(self.holder.as_ref()),
            cell(holding.iter().filter_map(|master| master.remaining_ms).min().map(|least| format!("{least} ms"))),
            cell(self.masters.iter().filter_map(|master| master.fence).max()),
            format!("{} of {}", holding.len(), self.masters.len()),
        ]
    }
}

impl OnMaster {
    fn of(node: LockOnNode) -> Self {
        Self {
            address: node.name,
            votes: node.votes,
            holder: node.holder.map(|holder| holder.to_string()),
            readers: tags(&node.readers),
            stranger: node.stranger,
            remaining_ms: node.remaining.map(|remaining| remaining.as_millis()),
            fence: node.fence,
            waiters: node.waiters,
            evicted: tags(&node.evicted),
            problem: node.problem.map(|problem| problem.to_string()),
        }
    }

    fn row(&self) -> [String; 7] {
        let stranger = if self.stranger { " (stranger)" } else { "" };
        let readers = Some(self.readers.len()).filter(|readers| *readers > 0).map(readers_of);
        [
            self.address.clone(),
            if self.votes { "yes" } else { "no" }.to_owned(),
            cell(self.holder.as_ref().map(|holder| format!("{holder}{stranger}")).or(readers)),
            cell(self.remaining_ms.map(|remaining| format!("{remaining} ms"))),
            cell(self.fence),
            self.waiters.to_string(),
            self.problem.clone().unwrap_or_default(),
        ]
    }
}

impl Forced {
    fn of(resource: &str, forced: ForcedRelease) -> Self {
        let ForcedRelease { token, evicted, freed_on, .. } = forced;
        Self { resource: resource.to_owned(), token: token.get(), evicted: tags(&evicted), freed_on }
    }

    fn text(&self) -> String {
        let Self { resource, token, evicted, freed_on } = self;
        if evicted.is_empty() {
            return format!("{resource}: nobody held it\ntoken {token}: claims with it shut out every holder before\n");
        }
        format!(
            "{resource}: taken from {}; the key was deleted on {}\ntoken {token}: claim it at the resource to shut the former \
             holder out at once; otherwise it may work until its next renewal\n",
            evicted.join(" and "),
            if freed_on.is_empty() { "no master".to_owned() } else { freed_on.join(", ") },
        )
    }
}
