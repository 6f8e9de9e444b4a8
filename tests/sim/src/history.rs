use std::fmt;
use std::time::Duration;

/// What happened, in the order in which it was noted. Times are those of the simulated world, the same for all hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) entries: Vec<(Duration, Event)>,
    calls: u64,
}

/// One call of `acquire`, anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) client: usize,
    pub(super) resource: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// A caller asks for a lock, and will wait so long.
    Asked { call: Call, ttl: Duration, wait: Duration },
    /// It got it.
    Granted { call: Call, token: u64, remaining: Duration },
    /// It did not get it.
    Failed { call: Call, why: &'static str },
    /// It went away before it had an answer.
    Dropped { call: Call },
    /// Its lease ended: it was released, or the holder was told of its loss.
    Ended { call: Call, why: &'static str },
    /// The answer to a release.
    Released { call: Call, answer: &'static str },
    /// The resource took a write under a token, or refused it.
    Wrote { call: Call, token: u64, accepted: bool },
    /// A fault begins, or ends.
    Fault(String),
    /// A client's process ended; what it held, it does not hold any more.
    Crashed { client: usize },
    /// A client did all that it had to do.
    Finished { client: usize },
}

impl History {
    pub(super) fn note(&mut self, now: Duration, event: Event) {
        self.entries.push((now, event));
    }

    pub(super) fn call(&mut self, client: usize, resource: usize) -> Call {
        self.calls += 1;
        Call { number: self.calls, client, resource }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of client-{} on resource-{}", self.number, self.client, self.resource)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { call, ttl, wait } => write!(f, "{call} asks, ttl {ttl:?}, wait {wait:?}"),
            Self::Granted { call, token, remaining } => write!(f, "{call} granted {token} for {remaining:?}"),
            Self::Failed { call, why } => write!(f, "{call} failed: {why}"),
            Self::Dropped { call } => write!(f, "{call} dropped"),
            Self::Ended { call, why } => write!(f, "{call} ended: {why}"),
            Self::Released { call, answer } => write!(f, "{call} released: {answer}"),
            Self::Wrote { call, token, accepted: true } => write!(f, "{call} wrote under {token}"),
            Self::Wrote { call, token, accepted: false } => write!(f, "{call} refused to write under {token}"),
            Self::Fault(what) => f.write_str(what),
            Self::Crashed { client } => write!(f, "client-{client} crashes"),
            Self::Finished { client } => write!(f, "client-{client} finished"),
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|(at, event)| writeln!(f, "{:>9.3} {event}", at.as_secs_f64() * 1000.0))
    }
}
