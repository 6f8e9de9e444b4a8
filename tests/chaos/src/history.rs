//! What happened, as lines of JSON: one file a process, each line handed to the kernel by one write before the process goes
//! on, so that it survives `SIGKILL`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::HURRIED;
use lock_history::Moment;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) at: Moment,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// What a service, or the nemesis, saw or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The first line of a service's file.
    Started { service: usize, generation: u32 },
    /// An acquisition begins after this, that waits for so long at most. If that is nothing, it does not stand in line.
    Attempt { attempt: u64, resource: String, wait: Duration },
    /// An acquisition ended before this with a lock that claims to be valid until `until`.
    Granted { attempt: u64, resource: String, token: u64, until: Moment },
    /// An acquisition ended with an error.
    Rejected { attempt: u64, resource: String, kind: String },
    /// The caller dropped an acquisition before this.
    Dropped { attempt: u64 },
    /// The lease claims to be valid until `until` now.
    Renewed { resource: String, token: u64, until: Moment },
    /// The holder was told that its lease ended. When it last asked before, at `valid_at`, it was valid.
    Told { resource: String, token: u64, reason: String, valid_at: Moment },
    /// A write is tried after this.
    Writing { resource: String, token: u64 },
    /// What came of the write, or of the claim before it.
    Wrote { resource: String, token: u64, outcome: Write },
    /// The lock is released after this.
    Releasing { resource: String, token: u64 },
    /// What came of the release.
    Released { resource: String, token: u64, outcome: String },
    /// The engine logged an event.
    Logged { name: String },
    /// The service closes its manager after this.
    Closing,
    /// The last line of a service that ended as it was asked to.
    Ended { revoked: usize },
    /// The nemesis hurt something.
    Fault { kind: String, server: Option<usize>, service: Option<usize>, generation: Option<u32> },
    /// It ended that.
    Healed { kind: String, server: Option<usize>, service: Option<usize> },
    /// It goes over to something else.
    Phase { name: String },
}

/// The kind of a rejection by a manager that was closed.
pub(super) const TURNED_AWAY: &str = "shutting_down";

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Write {
    /// Written.
    Accepted,
    /// The fence refused it.
    Refused,
    /// The holder saw that its lease had ended, and did not try.
    Renounced,
    /// The database did not answer in time.
    Failed,
}

/// Where a process writes its history.
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

/// How much of the end of a history tells what goes on.
const TAIL: u64 = 16 * 1024;

/// The history of one process. Its last line may be cut short if it was killed; any other must be readable.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", path.display()));
    whole.lines().map(line).collect()
}

/// Whether a process holds a lock, as far as the end of its history tells. Not counted is what is only held for a moment, and
/// is over before anybody can make use of the knowledge.
pub(super) fn holds(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.take(TAIL).read_to_end(&mut end)?;
    let (mut held, now) = (HashSet::new(), Moment::now());
    // The first line of these may be cut off, and the last one, too.
    for record in end.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Record>(line).ok()) {
        match record.event {
            Event::Granted { resource, until, .. } | Event::Renewed { resource, until, .. }
                if until > now && resource != super::resource(HURRIED) =>
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

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &Path, until: Moment) -> (Journal, [Event; 3]) {
        let journal = Journal::create(path).unwrap();
        let events = [
            Event::Started { service: 1, generation: 2 },
            Event::Granted { attempt: 7, resource: "r".into(), token: 9_007_199_254_740_991, until },
            Event::Wrote { resource: "r".into(), token: 8, outcome: Write::Refused },
        ];
        events.iter().for_each(|event| journal.write(event.clone()));
        (journal, events)
    }

    #[test]
    fn a_history_that_was_cut_short_is_read_up_to_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let (journal, events) = begin(&path, Moment(9_007_199_254_740_993));
        journal.0.lock().unwrap().write_all(b"{\"at\": 1").unwrap();
        let read: Vec<Event> = read(&path).unwrap().into_iter().map(|record| record.event).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn who_holds_a_lock_is_seen_while_it_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let (journal, _) = begin(&path, Moment::now().plus(std::time::Duration::from_secs(60)));
        assert!(holds(&path).unwrap());
        journal.write(Event::Releasing { resource: "r".into(), token: 9_007_199_254_740_991 });
        assert!(!holds(&path).unwrap());
        journal.write(Event::Granted { attempt: 8, resource: "r".into(), token: 9, until: Moment::now() });
        assert!(!holds(&path).unwrap(), "what it claimed is over");
    }
}
