use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lock_core::Lease;
use lock_core::observer::{AcquireBegan, LockObserver, OTHER};

/// Warns once for each two templates of which each was locked inside the other, anywhere in the process: callers that nest them in opposite
/// orders wait for each other until their `wait` is over.
///
/// An observer of managers, which does nothing in release builds. It sees locks that are taken inside the *scope* of another one: in a guarded
/// handler or function, and in [`run`](lock_core::LockRequest::run); of several scopes around it, the innermost. It keeps 4,096 pairs. Templates are those of macro and layer, or of
/// [`LockRequest::template`](lock_core::LockRequest::template). The warning is the event `lock.order` (level warn), with both places in the code.
/// The managers of a [`Trial`](super::Trial) have it.
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
    /// The templates, the outer one first, as they were nested first.
    pub templates: (String, String),
    /// Where the second one was taken inside the first: a function, its file and line, as far as debug information says so.
    pub first: String,
    /// Where the first one was taken inside the second.
    pub second: String,
}

/// How many pairs are kept. A program has fewer, unless names that are made at run time are its templates.
const MOST: usize = 4096;

/// Pairs of templates, the outer one first, and where they were nested first.
static SEEN: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());

impl LockOrder {
    /// The pairs that were nested in both orders so far, in this process.
    #[must_use]
    pub fn reversed() -> Vec<Reversed> {
        let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let both = |(pair, first): (&(String, String), &String)| {
            let (outer, inner) = pair;
            let second = seen.get(&(inner.clone(), outer.clone())).filter(|_| outer < inner)?;
            Some(Reversed { templates: pair.clone(), first: first.clone(), second: second.clone() })
        };
        seen.iter().filter_map(both).collect()
    }
}

impl LockObserver for LockOrder {
    fn acquire_began(&self, event: &AcquireBegan<'_>) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(outer) = Lease::current() else { return };
        let (outer, inner) = (outer.template(), event.template);
        if outer == inner || [outer, inner].contains(&OTHER) {
            return;
        }
        let pair = (outer.to_owned(), inner.to_owned());
        let is_known = |seen: &BTreeMap<_, _>| seen.contains_key(&pair) || seen.len() >= MOST;
        if is_known(&SEEN.lock().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        // It takes milliseconds, in which the other threads go on.
        let place = place();
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known(&seen) {
            return;
        }
        let reversed = seen.get(&(pair.1.clone(), pair.0.clone())).cloned();
        seen.insert(pair.clone(), place.clone());
        drop(seen);
        if let Some(other_place) = reversed {
            lock_core::log_event!(warn: "lock.order", outer, inner, place, other_place,
                "two locks are nested in both orders: callers wait for each other until their `wait` is over; acquire both at once \
                 (`resource = [..]`, `lock_all`), or always in the same order");
        }
    }
}

/// Where the program takes the lock: the first frame that is in none of the libraries in between. Debug information of lines is enough for that.
fn place() -> String {
    const LIBRARIES: [&str; 5] = ["/.cargo/", "/rustc/", "/rustlib/", "lock-core/src/", "lock-axum/src/"];
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    let mut function = "";
    for line in trace.lines().map(str::trim) {
        let Some(file) = line.strip_prefix("at ") else {
            function = line.split_once(": ").map_or(line, |(_, name)| name);
            continue;
        };
        if !LIBRARIES.iter().any(|library| file.contains(library)) {
            return format!("{function} at {file}");
        }
    }
    "an unknown place".to_owned()
}
