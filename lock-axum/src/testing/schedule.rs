//! A schedule, told step by step.

use std::collections::BTreeSet;
use std::fmt;

use super::question::Question;
use super::request::Request;

/// What is said of a request that waits for a lock.
const WAITS: &str = "waits for a lock";

/// An order of steps in which the check was false.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Schedule {
    /// The question that led to it.
    pub question: Question,
    /// The request that was held, in the order in which they were added, from 0.
    pub request: usize,
    /// At which of its steps, from 1; `None` if it had ended, and its work went on.
    pub step: Option<usize>,
    /// What its future had done last: an event, a span, or a [`step`](super::step) by hand. `None` if it logs nothing.
    pub place: Option<String>,
    pub(super) facts: Facts,
}

/// What was seen in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) lines: Vec<String>,
    /// How many steps each request made.
    pub(super) steps: Vec<usize>,
    /// What each request had locked at any step.
    pub(super) resources: Vec<BTreeSet<String>>,
    /// Whether any request took a lock.
    pub(super) took_a_lock: bool,
    /// Whether the request that was held had a lock there.
    pub(super) held_a_lock: bool,
    /// Whether another request waited for a lock meanwhile.
    pub(super) excluded: bool,
    /// Whether a request that went on after it was held ended well.
    pub(super) succeeded: bool,
    held_at: Option<(usize, Option<String>)>,
}

impl Schedule {
    pub(super) fn new(question: Question, request: usize, mut facts: Facts) -> Self {
        let (step, place) = facts.held_at.take().map_or((None, None), |(step, place)| (Some(step), place));
        Self { question, request, step, place, facts }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.facts.lines {
            writeln!(f, "  {line}")?;
        }
        write!(f, "  check: false")
    }
}

/// What happens in a run, as it happens.
pub(super) struct Told {
    labels: Vec<String>,
    entries: Vec<(usize, Entry)>,
    held_a_lock: bool,
}

enum Entry {
    /// At a step, after something, and what was done to it there.
    At(usize, Option<String>, &'static str),
    Ended(&'static str),
}

impl Told {
    pub(super) fn new(labels: Vec<String>) -> Self {
        Self { labels, entries: Vec::new(), held_a_lock: false }
    }

    pub(super) fn held(&mut self, who: usize, request: &Request, question: Option<Question>) {
        let is_first = self.entries.is_empty();
        self.held_a_lock |= is_first && request.instance.holds();
        let what = match question {
            Some(Question::HangUp) if is_first => "its client hangs up here",
            Some(Question::Lost) if is_first => "loses its lock here",
            Some(Question::Frozen) if is_first => "stands still here for longer than its ttl",
            _ => "held here",
        };
        self.at(who, request, what);
    }

    pub(super) fn ended(&mut self, who: usize, request: &Request, how: &'static str) {
        debug_assert!(request.answer.is_some(), "it has ended");
        self.entries.push((who, Entry::Ended(how)));
    }

    pub(super) fn waits(&mut self, who: usize, request: &Request) {
        let what = if request.instance.waits_for_a_lock() { WAITS } else { "does not end for now" };
        self.at(who, request, what);
    }

    pub(super) fn stuck(&mut self, who: usize, request: &Request) {
        let what =
            if request.instance.waits_for_a_lock() { "waits for a lock that nobody releases" } else { "does not end" };
        self.at(who, request, what);
    }

    fn at(&mut self, who: usize, request: &Request, what: &'static str) {
        self.entries.push((who, Entry::At(request.steps, request.place.last(), what)));
    }

    /// One line for each event, in columns.
    pub(super) fn lines(&self, requests: &[Request]) -> Vec<String> {
        let width = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
        let mut named = BTreeSet::new();
        let line = |(who, entry): &(usize, Entry)| {
            let label = if named.insert(*who) { self.labels[*who].as_str() } else { "" };
            let request = &requests[*who];
            let what = match entry {
                Entry::At(step, place, what) => {
                    let hung_up = request.answer.as_ref().is_none_or(super::Answer::is_hung_up);
                    let of = if hung_up { String::new() } else { format!(" of {}", request.steps) };
                    let place = place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
                    format!("step {step}{of}{place}   {what}")
                }
                Entry::Ended(how) => match &request.answer {
                    Some(answer) => format!("{how}: {answer}"),
                    None => (*how).to_owned(),
                },
            };
            format!("{} {label:width$}   {what}", letter(*who))
        };
        self.entries.iter().map(line).collect()
    }

    /// What was seen, in a run in which this request was the first.
    pub(super) fn facts(&self, requests: &[Request], first: usize) -> Facts {
        let held_at = self.entries.iter().find_map(|(who, entry)| match entry {
            Entry::At(step, place, _) if *who == first => Some((*step, place.clone())),
            _ => None,
        });
        Facts {
            lines: self.lines(requests),
            steps: requests.iter().map(|request| request.steps).collect(),
            resources: requests.iter().map(|request| request.instance.resources.clone()).collect(),
            took_a_lock: requests.iter().any(|request| request.instance.took_a_lock()),
            held_a_lock: self.held_a_lock,
            excluded: self.entries.iter().any(|(_, entry)| matches!(entry, Entry::At(.., what) if *what == WAITS)),
            succeeded: requests[first].answer.as_ref().is_some_and(super::Answer::is_success),
            held_at,
        }
    }
}

/// The name of a request in a schedule: A, B, …
pub(super) fn letter(index: usize) -> char {
    u8::try_from(index).ok().and_then(|index| b'A'.checked_add(index)).map_or('?', char::from)
}
