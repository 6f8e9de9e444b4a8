use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lock_core::inspection::Waiting;
use lock_core::{FencingToken, Kind, Lease, LockManager, Mutex};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::masters::Masters;
use super::place::place;
use super::shown::shown;

/// How many rows are shown: what somebody can read, and a browser can show again every second.
const MAX_ROWS: usize = 1000;
/// How long a state is shown to other pages, too. Half of the time between two states of one page, so that it gets a new one
/// each time.
const MAX_AGE: Duration = Duration::from_millis(500);

/// What the pages show. It is computed when a page asks for it.
pub(super) struct Board {
    pub(super) locks: LockManager,
    /// Whether rows have a button.
    control: bool,
    masters: Masters,
    place: Value,
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

/// A lock or a permit that is held, or that callers wait for.
struct Row<'a> {
    template: &'a str,
    resource: &'a str,
    /// `None` if another process holds it.
    hold: Option<Hold>,
    /// Whether callers wait for any permit of the resource: those that are held have rows of their own, by slot.
    any_permit: bool,
    waiting: usize,
}

impl<'a> Row<'a> {
    /// First what somebody waits for, then what is held longest.
    fn order(&self) -> (bool, Reverse<Option<Duration>>, &'a str) {
        (self.waiting == 0, Reverse(self.hold.as_ref().map(|hold| hold.age)), self.resource)
    }
}

struct Hold {
    token: FencingToken,
    kind: Option<&'static str>,
    age: Duration,
    remaining: Duration,
}

/// The rows of one template.
#[derive(Default)]
struct Section {
    held: usize,
    waiting: usize,
    rows: Vec<Value>,
}

impl Board {
    pub(super) fn new(locks: LockManager, control: bool) -> Self {
        Self { locks, control, masters: Masters::default(), place: place(), last: Mutex::default() }
    }

    /// The state as JSON.
    pub(super) fn state(&self) -> Arc<str> {
        self.masters.ask_if_due(&self.locks);
        let mut last = self.last.lock();
        match &*last {
            Some((at, state)) if at.elapsed() < MAX_AGE => Arc::clone(state),
            _ => {
                let state = Arc::from(self.compute().to_string());
                *last = Some((Instant::now(), Arc::clone(&state)));
                state
            }
        }
    }

    fn compute(&self) -> Value {
        let (held, waiting) = (self.locks.held(), self.locks.waiting());
        let rows = rows(&held, &waiting);
        let callers: usize = waiting.iter().map(|waiting| waiting.callers).sum();
        let sections = sections(&rows, self.locks.redacts());
        let templates = sections.into_iter().map(|(template, Section { held, waiting, rows })| {
            json!({ "template": shown(template), "held": held, "waiting": waiting, "rows": rows })
        });
        let templates: Vec<Value> = templates.collect();
        let (quorum, some_shards, masters) = self.masters.view();
        json!({
            "control": self.control,
            "place": self.place,
            "quorum": quorum,
            "some_shards": some_shards,
            "masters": masters,
            "held": held.len(),
            "waiting": callers,
            "left_out": rows.len().saturating_sub(MAX_ROWS),
            "templates": templates,
        })
    }
}

/// What is said of a lease that is not held alone, to write.
fn kind(lease: &Lease) -> Option<&'static str> {
    match lease.kind() {
        _ if lease.is_adopted() => Some("adopted"),
        Kind::Read => Some("reads"),
        _ => None,
    }
}

/// One row for each lease, and for each resource that is only waited for. The rows to show come first, in their order.
fn rows<'a>(held: &'a [Lease], waiting: &'a [Waiting]) -> Vec<Row<'a>> {
    let (for_permits, for_locks): (Vec<_>, Vec<_>) = waiting.iter().partition(|line| line.permits);
    let mut waiting: HashMap<&str, &Waiting> = for_locks.iter().map(|line| (line.resource.as_str(), *line)).collect();
    let here = held.iter().map(|lease| Row {
        template: lease.template(),
        resource: lease.resource(),
        hold: Some(Hold { token: lease.token(), kind: kind(lease), age: lease.age(), remaining: lease.remaining() }),
        any_permit: false,
        waiting: waiting.remove(lease.resource()).map_or(0, |line| line.callers),
    });
    let mut rows: Vec<Row<'_>> = here.collect();
    rows.extend(waiting.into_values().chain(for_permits).map(|line| Row {
        template: &line.template,
        resource: &line.resource,
        hold: None,
        any_permit: line.permits,
        waiting: line.callers,
    }));
    // Not all of them in order: there may be a hundred thousand.
    let shown = MAX_ROWS.min(rows.len());
    if shown < rows.len() {
        rows.select_nth_unstable_by_key(shown, Row::order);
    }
    rows[..shown].sort_unstable_by_key(Row::order);
    rows
}

/// The rows by template, without those above [`MAX_ROWS`]. Every template is counted, unless there are too many of those, too.
fn sections<'a>(rows: &[Row<'a>], redact: bool) -> BTreeMap<&'a str, Section> {
    let mut sections: BTreeMap<&str, Section> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if sections.len() >= MAX_ROWS && !sections.contains_key(row.template) {
            continue;
        }
        let section = sections.entry(row.template).or_default();
        section.held += usize::from(row.hold.is_some());
        section.waiting += row.waiting;
        if index < MAX_ROWS {
            section.rows.push(view(row, redact));
        }
    }
    sections
}

fn view(row: &Row<'_>, redact: bool) -> Value {
    json!({
        "resource": (!redact).then_some(row.resource),
        // For people. To release a lock, the page sends the name itself.
        "shown": (!redact).then(|| shown(row.resource)),
        // As text: a browser's numbers do not have as many digits.
        "token": row.hold.as_ref().map(|hold| hold.token.to_string()),
        "kind": row.hold.as_ref().and_then(|hold| hold.kind),
        "age_ms": row.hold.as_ref().map(|hold| millis(hold.age)),
        "remaining_ms": row.hold.as_ref().map(|hold| millis(hold.remaining)),
        "any_permit": row.any_permit,
        "waiting": row.waiting,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
