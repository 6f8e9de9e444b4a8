//! Histories: what happened, as JSON lines, one file per process. Each line is written to the file in one call before
//! the process goes on, so that it survives `SIGKILL`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::QUICK_RESOURCE;
use lock_history::Moment;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) at: Moment,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// What a service or the nemesis saw or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The first line of the file of a service.
    Started { service: usize, generation: u32 },
    /// An acquisition is about to begin, with this `wait`. Without one, it joins no queue.
    Attempt { attempt: u64, resource: String, wait: Duration, reads: bool },
    /// That of a permit is. What is granted is one of the slots of the resource.
    PermitAttempt { attempt: u64, resource: String, wait: Duration },
    /// That of a set of locks is.
    SetAttempt { attempt: u64, resources: Vec<String>, wait: Duration },
    /// An acquisition returned a lock that claims to be valid until `until`; that of a set, several.
    Granted { attempt: u64, resource: String, token: u64, until: Moment, reads: bool },
    /// An acquisition returned an error.
    Rejected { attempt: u64, resource: String, kind: String },
    /// The caller dropped an acquisition.
    Dropped { attempt: u64 },
    /// The lease now claims to be valid until `until`.
    Renewed { attempt: u64, resource: String, until: Moment },
    /// The holder noticed that its lease was lost. It was last seen to be valid at `valid_at`.
    Lost { attempt: u64, resource: String, reason: String, valid_at: Moment },
    /// Of the locks of a set one was lost. Whether each was valid, in the order in which they were looked at.
    SetLost { attempt: u64, valid: Vec<bool> },
    /// A write is about to begin.
    Writing { attempt: u64, resource: String },
    /// The outcome of the write, or of the claim before it.
    Wrote { attempt: u64, resource: String, outcome: Write },
    /// A reader looked, and whether the fence let it.
    Looked { attempt: u64, resource: String, accepted: bool },
    /// The holder is about to go on to read.
    Downgrading { attempt: u64, resource: String },
    /// The holder delegated the lock. Until it is answered, another service may be at work.
    Delegated { attempt: u64, resource: String },
    /// The other service answered.
    Answered { attempt: u64, resource: String },
    /// The release is about to begin.
    Releasing { attempt: u64, resource: String },
    /// The outcome of the release.
    Released { attempt: u64, resource: String, outcome: String },
    /// A delegation is about to be adopted.
    Adopting { attempt: u64 },
    /// It was. The lease claims to be valid until `until`.
    Adopted { attempt: u64, resource: String, token: u64, until: Moment, reads: bool },
    /// It was adopted once more, and nobody relied on that.
    Replayed { attempt: u64, resource: String, token: u64 },
    /// It was refused.
    NotAdopted { attempt: u64, kind: String },
    /// A forced release is about to begin.
    Forcing { attempt: u64, resource: String },
    /// It is done, and evicted this many.
    Forced { attempt: u64, resource: String, token: u64, evicted: usize },
    /// It failed, but may have evicted somebody.
    NotForced { attempt: u64, resource: String, kind: String },
    /// Its token has claimed the fence.
    Claimed { attempt: u64, resource: String, token: u64 },
    /// The engine logged an event.
    Logged { name: String, fields: String },
    /// A probe acquired a lock that nobody else wanted.
    Probed,
    /// A probe failed to.
    ProbeFailed { kind: String },
    /// The process stood still from then on until now.
    Stalled { from: Moment },
    /// The service is about to close its manager.
    Closing,
    /// The last line of a service that ended when it was asked to.
    Ended { revoked: usize },
    /// The nemesis injected a fault.
    Fault { kind: String, server: Option<usize>, service: Option<usize>, generation: Option<u32> },
    /// The nemesis ended a fault.
    Healed { kind: String, server: Option<usize>, service: Option<usize> },
    /// The nemesis stepped the clock of a master that votes forward, to this offset.
    ClockStepped { seconds: i64 },
    /// The nemesis shortened keys that lived for too long because a clock had been stepped back.
    KeysShortened { count: usize },
    /// The nemesis began a phase.
    Phase { name: String },
}

/// The kind of a rejection by a closed manager.
pub(super) const SHUTTING_DOWN: &str = "shutting_down";

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Write {
    /// Written.
    Accepted,
    /// The fence refused it.
    Refused,
    /// The holder noticed that its lease had ended, and did not write.
    Skipped,
    /// The database did not reply in time.
    Failed,
}

/// The file to which a process writes its history.
pub(super) struct Journal(Mutex<File>);

impl Journal {
    pub(super) fn create(path: &Path) -> std::io::Result<Self> {
        File::options().create_new(true).append(true).open(path).map(|file| Self(Mutex::new(file)))
    }

    pub(super) fn write(&self, event: Event) {
        let mut line = serde_json::to_vec(&Record { at: Moment::now(), event }).unwrap();
        line.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).unwrap();
    }
}

/// Reads the history of one process. The last line may be cut off if the process was killed; all others must parse.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", path.display()));
    complete.lines().map(line).collect()
}

/// How many bytes at the end of a history are read to see what a process holds, and where its only task stands.
const TAIL: (u64, u64) = (16 * 1024, 2 * 1024);

/// The end of a history.
fn tail(path: &Path, bytes: u64) -> std::io::Result<Vec<Record>> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    // The first of these lines may be cut off, and the last one, too.
    Ok(end.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Whether a process holds a lock, by the end of its history. Locks of the quick resource do not count: they are
/// released before anybody can act on the answer.
pub(super) fn holds(path: &Path) -> std::io::Result<bool> {
    let (mut held, now) = (HashSet::new(), Moment::now());
    for record in tail(path, TAIL.0)? {
        match record.event {
            Event::Granted { resource, until, .. } | Event::Renewed { resource, until, .. }
                if until > now && resource != super::resource(QUICK_RESOURCE) =>
            {
                held.insert(resource);
            }
            Event::Releasing { resource, .. } => {
                held.remove(&resource);
            }
            _ => {}
        }
    }
    Ok(!held.is_empty())
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Waits { since: Moment },
    Holds { since: Moment },
    Neither,
}

/// Where the only task of a process stands, by the end of its history.
pub(super) fn standing(path: &Path) -> std::io::Result<Standing> {
    let mut standing = Standing::Neither;
    for Record { at, event } in tail(path, TAIL.1)? {
        standing = match event {
            Event::Attempt { .. } => Standing::Waits { since: at },
            Event::Granted { .. } => Standing::Holds { since: at },
            Event::Rejected { .. } | Event::Dropped { .. } | Event::Lost { .. } | Event::Releasing { .. } => {
                Standing::Neither
            }
            _ => standing,
        };
    }
    Ok(standing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &Path, until: Moment) -> (Journal, [Event; 3]) {
        let journal = Journal::create(path).unwrap();
        let events = [
            Event::Started { service: 1, generation: 2 },
            Event::Granted { attempt: 7, resource: "r".into(), token: 9_007_199_254_740_991, until, reads: false },
            Event::Wrote { attempt: 7, resource: "r".into(), outcome: Write::Refused },
        ];
        events.iter().for_each(|event| journal.write(event.clone()));
        (journal, events)
    }

    #[test]
    fn a_history_is_read_up_to_a_line_that_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let (journal, events) = begin(&path, Moment(9_007_199_254_740_993));
        journal.0.lock().unwrap().write_all(b"{\"at\": 1").unwrap();
        let read: Vec<Event> = read(&path).unwrap().into_iter().map(|record| record.event).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn a_holder_is_seen_while_its_lease_is_valid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let (journal, _) = begin(&path, Moment::now().plus(std::time::Duration::from_secs(60)));
        assert!(holds(&path).unwrap());
        journal.write(Event::Releasing { attempt: 7, resource: "r".into() });
        assert!(!holds(&path).unwrap());
        journal.write(Event::Granted { attempt: 8, resource: "r".into(), token: 9, until: Moment::now(), reads: true });
        assert!(!holds(&path).unwrap(), "its validity is over");
    }

    #[test]
    fn a_task_waits_until_it_is_granted_and_holds_until_it_releases() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let journal = Journal::create(&path).unwrap();
        let (attempt, resource, reads) = (1, || "r".to_owned(), false);
        journal.write(Event::Attempt { attempt, resource: resource(), wait: Duration::ZERO, reads });
        assert!(matches!(standing(&path).unwrap(), Standing::Waits { .. }));
        journal.write(Event::Granted { attempt, resource: resource(), token: 1, until: Moment::MAX, reads });
        journal.write(Event::Writing { attempt, resource: resource() });
        assert!(matches!(standing(&path).unwrap(), Standing::Holds { .. }));
        journal.write(Event::Releasing { attempt, resource: resource() });
        journal.write(Event::Released { attempt, resource: resource(), outcome: "ours".into() });
        assert_eq!(standing(&path).unwrap(), Standing::Neither);
    }
}
