use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The events of a run in the order in which they were recorded. Times are virtual and the same for all hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) entries: Vec<(Duration, Event)>,
    calls: u64,
}

/// One call of `acquire` by any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) client: usize,
    pub(super) resource: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// The call began, and waits for at most `wait`.
    Began { call: Call, ttl: Duration, wait: Duration },
    /// The lock was granted.
    Granted { call: Call, token: u64, reads: bool, remaining: Duration },
    /// The call is about one of the slots of its resource: that which it was granted, or is about to force.
    Slot { call: Call, slot: u32 },
    /// The holder reads from now on.
    Downgraded { call: Call },
    /// A set of locks was granted, with these names of those that were wanted.
    SetGranted { call: Call, wanted: BTreeSet<String>, granted: BTreeSet<String> },
    /// Whether the locks of a set were valid, in the order in which they were looked at.
    SetSeen { call: Call, valid: Vec<bool> },
    /// The holder delegated its lock to another client.
    Delegated { call: Call },
    /// The other client answered.
    Answered { call: Call },
    /// A client is about to adopt a lock.
    Adopting { call: Call },
    /// It did.
    Adopted { call: Call, token: u64, reads: bool },
    /// It did so a second time, and relies on nothing.
    Replayed { call: Call, token: u64 },
    /// A client is about to take a lock from its holder.
    Forcing { call: Call },
    /// The call returned an error.
    Failed { call: Call, why: &'static str },
    /// The caller dropped the call before it returned.
    Dropped { call: Call },
    /// The lease ended: it was released, or the holder was notified of its loss.
    Ended { call: Call, why: &'static str },
    /// A release returned.
    Released { call: Call, result: &'static str },
    /// The resource accepted or refused a write with a token.
    Wrote { call: Call, token: u64, accepted: bool },
    /// A client wrote the record of a server, which now has a roster of this generation, or none (0).
    RecordWritten { client: usize, server: String, kind: &'static str, generation: u64 },
    /// A fault began or ended.
    Fault(String),
    /// A client's process ended, and so did its leases.
    Crashed { client: usize },
    /// The machine of a client was suspended: its clock stands still.
    Suspended { client: usize },
    /// The machine of a client goes on.
    Resumed { client: usize },
    /// A lock was deleted on a server before its time, because the server's clock stepped forward.
    Freed { resource: String },
    /// A client completed its work.
    Finished { client: usize },
}

impl History {
    pub(super) fn record(&mut self, now: Duration, event: Event) {
        self.entries.push((now, event));
    }

    /// The clients with a call that began since then and has not returned.
    pub(super) fn in_line(&self, since: Duration) -> BTreeSet<usize> {
        let mut open = BTreeSet::new();
        for (_, event) in self.entries.iter().skip_while(|(at, _)| *at < since) {
            match event {
                Event::Began { call, .. } => _ = open.insert(*call),
                Event::Granted { call, .. } | Event::Failed { call, .. } | Event::Dropped { call } => {
                    open.remove(call);
                }
                Event::Crashed { client } => open.retain(|call| call.client != *client),
                _ => {}
            }
        }
        open.into_iter().map(|call| call.client).collect()
    }

    /// How often a client was suspended.
    pub(super) fn suspensions(&self, client: usize) -> usize {
        let suspended = Event::Suspended { client };
        self.entries.iter().filter(|(_, event)| *event == suspended).count()
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
            Self::Began { call, ttl, wait } => write!(f, "{call} began, ttl {ttl:?}, wait {wait:?}"),
            Self::Granted { call, token, reads, remaining } => {
                let to = if *reads { "read" } else { "write" };
                write!(f, "{call} granted token {token} to {to} for {remaining:?}")
            }
            Self::Slot { call, slot } => write!(f, "{call} is about slot {slot}"),
            Self::Downgraded { call } => write!(f, "{call} reads from now on"),
            Self::SetGranted { call, granted, .. } => write!(f, "{call} and others granted together: {granted:?}"),
            Self::SetSeen { call, valid } => write!(f, "{call} sees its set: {valid:?}"),
            Self::Delegated { call } => write!(f, "{call} delegates its lock"),
            Self::Answered { call } => write!(f, "{call} is answered"),
            Self::Adopting { call } => write!(f, "{call} adopts"),
            Self::Adopted { call, token, reads } => {
                write!(f, "{call} adopted token {token} to {}", if *reads { "read" } else { "write" })
            }
            Self::Replayed { call, token } => write!(f, "{call} adopted token {token} once more"),
            Self::Forcing { call } => write!(f, "{call} forces a release"),
            Self::Failed { call, why } => write!(f, "{call} failed: {why}"),
            Self::Dropped { call } => write!(f, "{call} dropped"),
            Self::Ended { call, why } => write!(f, "{call} ended: {why}"),
            Self::Released { call, result } => write!(f, "{call} released: {result}"),
            Self::Wrote { call, token, accepted: true } => write!(f, "{call} wrote with token {token}"),
            Self::Wrote { call, token, accepted: false } => write!(f, "{call} was refused a write with token {token}"),
            Self::RecordWritten { client, server, kind, generation } => {
                write!(f, "client-{client} makes {server} {kind} in generation {generation}")
            }
            Self::Fault(what) => f.write_str(what),
            Self::Crashed { client } => write!(f, "client-{client} crashed"),
            Self::Suspended { client } => write!(f, "client-{client} is suspended"),
            Self::Resumed { client } => write!(f, "client-{client} goes on"),
            Self::Freed { resource } => write!(f, "{resource} is freed by a clock"),
            Self::Finished { client } => write!(f, "client-{client} finished"),
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|(at, event)| writeln!(f, "{:>9.3} {event}", at.as_secs_f64() * 1000.0))
    }
}
