//! `lockctl watch`: the state of the masters, whenever it changes.

use std::error::Error;
use std::time::{Duration, SystemTime};

use humantime::format_rfc3339_seconds;
use lock_core::LockManager;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::output::{Printed, print_text};
use crate::report::Report;

/// How often the masters are asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// A report with its time.
#[derive(Serialize)]
struct Observed {
    at: String,
    #[serde(flatten)]
    report: Report,
}

/// Prints the state of the masters now, and whenever it has changed, until the time is over or nobody reads. Returns whether all was
/// well then.
pub(crate) async fn watch(locks: &LockManager, time: Option<Duration>, json: bool) -> Result<bool, Box<dyn Error>> {
    let (mut shown, mut is_well) = (String::new(), false);
    let watching = async {
        loop {
            let report = Report::of(locks).await;
            is_well = report.complete;
            let state = format!("{}\n{}", report.verdict(), report.outlook());
            if state != shown {
                let at = format_rfc3339_seconds(SystemTime::now()).to_string();
                let text =
                    if json { serde_json::to_string(&Observed { at, report })? } else { format!("{at}  {state}") };
                match print_text(&(text + "\n")) {
                    Printed::Yes => {}
                    Printed::Unread => return Ok(()),
                    Printed::No => {
                        is_well = false;
                        return Ok(());
                    }
                }
                shown = state;
            }
            sleep(INTERVAL).await;
        }
    };
    match timeout(time.unwrap_or(Duration::MAX), watching).await {
        Ok(stopped) => stopped.map(|()| is_well),
        Err(_) => Ok(is_well),
    }
}
