use std::collections::BTreeMap;

use lock_core::observer::{LockEvent, LockObserver, OTHER};
use lock_core::{Lease, Mutex};

/// Warns once for each two templates of which each was locked inside the other, anywhere in the process: callers that nest them in opposite
/// orders wait for each other until their `wait` is over.
///
/// An observer of managers, which does nothing in release builds. It sees locks that are taken inside the *scope* of another one: in a guarded
/// handler or function, and in [`run`](lock_core::LockRequest::run). It keeps the first 4,096 pairs, and their reverses. Templates are those
/// of macro and layer, or of [`LockRequest::template`](lock_core::LockRequest::template). The warning is the event `lock.order` (level warn),
/// with both places in the code. The managers of a [`Trial`](super::Trial) have it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use lock_axum::testing::LockOrder;
/// use lock_axum::{LockManager, MemoryNode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::builder().nodes([MemoryNode::new()]).observer(Arc::new(LockOrder)).connect().await?;
/// let lock = |name: &str| locks.lock(name).template(name);
/// lock("user").run(async |_| lock("cart").run(async |_| ()).await).await??;
/// assert!(LockOrder::reversed().is_empty());
/// lock("cart").run(async |_| lock("user").run(async |_| ()).await).await??;
/// assert_eq!(LockOrder::reversed().len(), 1); // and a warning
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LockOrder;

/// Two templates that were nested in both orders, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reversed {
    /// The templates, in the order of their names.
    pub templates: (String, String),
    /// Where the second one was taken inside the first: a function, its file and line, as far as debug information says so.
    pub first: String,
    /// Where the first one was taken inside the second.
    pub second: String,
}

/// How many pairs are kept. A program has fewer, unless names that are made at run time are its templates.
const MOST: usize = 4096;

static SEEN: Mutex<Seen> = Mutex::new(Seen(BTreeMap::new()));

/// Pairs of templates, the outer one first, and where they were nested first.
struct Seen(BTreeMap<(String, String), String>);

impl Seen {
    /// Whether a pair is new, and there is room for it. For the reverse of one that is kept, there is.
    fn takes(&self, pair: &(String, String)) -> bool {
        !self.0.contains_key(pair) && (self.0.len() < MOST || self.first_place_of_reverse(pair).is_some())
    }

    fn first_place_of_reverse(&self, (outer, inner): &(String, String)) -> Option<&String> {
        self.0.get(&(inner.clone(), outer.clone()))
    }

    fn reversed(&self) -> Vec<Reversed> {
        let both = |(pair, first): (&(String, String), &String)| {
            let second = self.first_place_of_reverse(pair).filter(|_| pair.0 < pair.1)?;
            Some(Reversed { templates: pair.clone(), first: first.clone(), second: second.clone() })
        };
        self.0.iter().filter_map(both).collect()
    }
}

impl LockOrder {
    /// The pairs that were nested in both orders so far, in this process.
    #[must_use]
    pub fn reversed() -> Vec<Reversed> {
        SEEN.lock().reversed()
    }
}

impl LockObserver for LockOrder {
    fn observe(&self, event: &LockEvent<'_>) {
        let LockEvent::AcquireBegan { template: inner, .. } = *event else { return };
        if !cfg!(debug_assertions) || inner == OTHER {
            return;
        }
        let outer = Lease::templates_in_scope();
        // One that is acquired again is the same lock: nobody waits for it.
        if outer.iter().all(|outer| outer != inner) {
            outer.into_iter().filter(|outer| outer != OTHER).for_each(|outer| note((outer, inner.to_owned())));
        }
    }
}

/// Keeps a pair if it is new, and warns if its reverse was there before.
fn note(pair: (String, String)) {
    if !SEEN.lock().takes(&pair) {
        return;
    }
    // It takes milliseconds, in which the other threads go on.
    let place = place_in(&std::backtrace::Backtrace::force_capture().to_string());
    let mut seen = SEEN.lock();
    if !seen.takes(&pair) {
        return;
    }
    let reversed = seen.first_place_of_reverse(&pair).cloned();
    seen.0.insert(pair.clone(), place.clone());
    drop(seen);
    if let (Some(other_place), (outer, inner)) = (reversed, pair) {
        lock_core::log_event!(warn: "lock.order", outer, inner, place, other_place,
            "two locks are nested in both orders: callers wait for each other until their `wait` is over; acquire both at once \
             (`resource = [..]`, `lock_all`), or always in the same order");
    }
}

/// Where the program takes the lock: the first frame of a backtrace that is in none of the libraries in between. Debug information of lines
/// is enough for that. Without it, only the C library may have some.
fn place_in(trace: &str) -> String {
    const LIBRARIES: [&str; 5] = ["/.cargo/", "/rustc/", "/rustlib/", "lock-core/src/", "lock-axum/src/"];
    let mut function = "";
    for line in trace.lines().map(str::trim) {
        let Some(file) = line.strip_prefix("at ") else {
            function = line.split_once(": ").map_or(line, |(_, name)| name);
            continue;
        };
        if file.contains(".rs:") && !LIBRARIES.iter().any(|library| file.contains(library)) {
            return format!("{function} at {file}");
        }
    }
    "an unknown place (build with debug = \"line-tables-only\")".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_first_line_of_the_program_or_unknown() {
        let libraries = "   5: lock_core::lease::run\n             at /app/.cargo/lock-core/src/lease/guard.rs:7:5\n";
        let program = "   6: shop::buy\n             at ./src/buy.rs:12:9\n";
        let c = "   7: start_thread\n             at ./nptl/pthread_create.c:442:8\n";
        assert_eq!(place_in(&[libraries, program, c].concat()), "shop::buy at ./src/buy.rs:12:9");
        assert!(place_in(&[libraries, c].concat()).starts_with("an unknown place"));
    }

    #[test]
    fn pairs_are_kept_up_to_a_bound_and_the_reverses_of_those_that_are() {
        let pair = |outer: &str, inner: &str| (outer.to_owned(), inner.to_owned());
        let mut seen = Seen(BTreeMap::new());
        for index in 0..MOST {
            let pair = pair("outer", &format!("inner-{index}"));
            assert!(seen.takes(&pair), "{index}");
            seen.0.insert(pair, format!("here {index}"));
        }
        assert!(!seen.takes(&pair("outer", "one-more")) && !seen.takes(&pair("outer", "inner-7")));
        assert!(!seen.takes(&pair("one-more", "outer")), "its reverse is not kept");
        // What is dangerous is found all the same, once.
        let reverse = pair("inner-7", "outer");
        assert!(seen.takes(&reverse));
        seen.0.insert(reverse.clone(), "there".to_owned());
        assert!(!seen.takes(&reverse));
        let told = Reversed { templates: reverse, first: "there".to_owned(), second: "here 7".to_owned() };
        assert_eq!(seen.reversed(), [told]);
    }
}
