//! What each command does.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use lock_core::limits::MIN_TTL;
use lock_core::quorum::quarantine_length;
use lock_core::{LockManager, LockManagerBuilder};
use tokio::time::{sleep, timeout};

use crate::args::{Cli, Command, FormArgs, MaxTtlArgs, SetArgs};
use crate::completions;
use crate::locks;
use crate::output;
use crate::report::{Report, SetReport};
use crate::watch::watch;

/// How often progress is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Runs a command. Returns whether all is well, or done.
pub(crate) async fn run(Cli { set, command }: Cli) -> Result<bool, Box<dyn Error>> {
    match command {
        Command::Health => show(&set, Report::health).await,
        Command::Members => show(&set, Report::members).await,
        Command::Replace => {
            let Some(before) = seen(&set).await? else { return Ok(false) };
            if !shows_set(&set, &before) {
                say!("When all masters of the list answer, this forms one.");
            }
            let locks = connect(&set)?;
            wait_until(&set, &locks, "every master of the list votes", |report| report.complete).await
        }
        Command::Watch => watch(&look(&set)?, set.timeout, set.json).await,
        Command::Inspect(args) => {
            let locks = look(&set)?;
            Ok(has_set(&set, &locks).await && locks::inspect(&set, &locks, &args.name).await?)
        }
        Command::ForceRelease(args) => {
            let locks = look(&set)?;
            Ok(has_set(&set, &locks).await && locks::force_release(&set, &locks, &args.name).await?)
        }
        Command::Form(args) => form(&set, &args).await,
        Command::MaxTtl(args) => lower_max_ttl(&set, &args).await,
        Command::Completions(args) => Ok(completions::print(args.shell)),
    }
}

/// A manager that asks for the shortest time to live: one that is shorter than the set's is fine, and a longer one would raise it.
fn connect(set: &SetArgs) -> Result<LockManager, Box<dyn Error>> {
    Ok(builder(set)?.max_ttl(MIN_TTL).connect_lazy()?)
}

/// A manager that leaves no trace on the masters: looking with a wrong prefix forms no set there.
fn look(set: &SetArgs) -> Result<LockManager, Box<dyn Error>> {
    Ok(builder(set)?.max_ttl(MIN_TTL).passive(true).connect_lazy()?)
}

/// Whether there is a set to look at. Says so if not.
async fn has_set(set: &SetArgs, locks: &LockManager) -> bool {
    seen_by(set, locks).await.is_some_and(|report| shows_set(set, &report))
}

/// Whether a report is of a set. Says so if not.
fn shows_set(set: &SetArgs, report: &Report) -> bool {
    let finds_no_set = report.finds_no_set();
    if finds_no_set {
        say!("lockctl: {}", no_set(set));
    }
    !finds_no_set
}

fn no_set(set: &SetArgs) -> String {
    format!(
        "none of the masters that answer belongs to a set with the prefix {:?}: is it the prefix of the services, and is this their list? \
         This formed none. The first service that starts forms a set, or lockctl form",
        set.prefix
    )
}

fn builder(set: &SetArgs) -> Result<LockManagerBuilder, Box<dyn Error>> {
    let mut builder = masters(set)?;
    for master in &set.sentinel_masters {
        builder = builder.sentinel(&set.sentinels, master);
    }
    builder = builder.redis_cluster(&set.clusters).shards(set.shards);
    for urls in &set.sets {
        builder = builder.set(urls.split(','));
    }
    #[cfg(feature = "tls")]
    if let Some(config) = set.tls.config()? {
        builder = builder.tls(config);
    }
    Ok(builder.prefix(&set.prefix).set_name(&set.set_name).assume_durable(set.assume_durable))
}

/// The masters that are named by their addresses.
fn masters(set: &SetArgs) -> Result<LockManagerBuilder, Box<dyn Error>> {
    let builder = LockManager::builder();
    // The servers of an ensemble have commas between them, as masters do.
    let urls = set.urls.join(",");
    if urls.is_empty() && !(set.sentinels.is_empty() && set.clusters.is_empty() && set.sets.is_empty()) {
        return Ok(builder);
    }
    if let Some(ensemble) = urls.strip_prefix("zookeeper://") {
        return Ok(builder.zookeeper(ensemble));
    }
    let (postgres, redis): (Vec<&str>, Vec<&str>) = urls.split(',').partition(|url| url.starts_with("postgres"));
    Ok(builder.redis(redis).postgres(postgres))
}

/// What the masters have, if they say so in time.
async fn seen(set: &SetArgs) -> Result<Option<Report>, Box<dyn Error>> {
    Ok(seen_by(set, &look(set)?).await)
}

async fn seen_by(set: &SetArgs, locks: &LockManager) -> Option<Report> {
    let report = timeout(set.timeout.unwrap_or(Duration::MAX), Report::of(locks)).await.ok();
    if report.is_none() {
        say!("no answer within the timeout");
    }
    report
}

async fn show(set: &SetArgs, text: fn(&Report) -> String) -> Result<bool, Box<dyn Error>> {
    let Some(report) = seen(set).await? else { return Ok(false) };
    let is_printed = print(set, &report, text)?;
    shows_set(set, &report);
    Ok(is_printed && report.complete)
}

/// Reports progress until the condition holds, or the time is over.
async fn wait_until(
    set: &SetArgs,
    locks: &LockManager,
    what: &str,
    done: fn(&Report) -> bool,
) -> Result<bool, Box<dyn Error>> {
    say!("waiting until {what}");
    let mut shown = String::new();
    let waiting = async {
        loop {
            let report = Report::of(locks).await;
            if done(&report) {
                return report;
            }
            let outlook = report.outlook();
            if outlook != shown {
                say!("{outlook}");
                report.advice().iter().for_each(|advice| say!("  -> {advice}"));
                shown = outlook;
            }
            sleep(POLL).await;
        }
    };
    let (done, report) = match timeout(set.timeout.unwrap_or(Duration::MAX), waiting).await {
        Ok(report) => (true, report),
        Err(_) => (false, Report::of(locks).await),
    };
    say!(
        "{}",
        if done { "done" } else { "not done in time; what was done stays done: run this again to go on waiting" }
    );
    Ok(print(set, &report, Report::members)? && done)
}

async fn form(set: &SetArgs, args: &FormArgs) -> Result<bool, Box<dyn Error>> {
    let Some(before) = seen(set).await? else { return Ok(false) };
    if let Some(formed) = before.set.as_ref().filter(|_| before.quorum) {
        say!("nothing to do: set {} is formed, and a majority of its members votes", formed.id);
        return print(set, &before, Report::members);
    }
    if !args.yes {
        print(set, &before, Report::health)?;
        say!("{FORM_MEANS}");
        return Ok(false);
    }
    let locks = builder(set)?.max_ttl(args.max_ttl).form_with_missing(true).connect_lazy()?;
    wait_until(set, &locks, "a majority of the masters votes", |report| report.quorum).await
}

const FORM_MEANS: &str = "
With --yes, this forms a set of the masters above that answer, if a majority of the list does, and if no majority of the members
of a set is left. Then
  - the masters that answer grant nothing for --max-ttl, so that every lock has ended that they may have granted and forgotten;
  - the seats of the others are vacant, and they take them when they come;
  - tokens go on from what the masters still know, or else from their clocks.
Nothing can tell a new set from one whose masters are at other addresses than this list says, if the ones in the list were wiped.
So be sure of two things: the list is the right one, and no service works with these masters' set at other addresses.";

async fn lower_max_ttl(set: &SetArgs, args: &MaxTtlArgs) -> Result<bool, Box<dyn Error>> {
    let locks = connect(set)?;
    let wanted = args.max_ttl.as_millis();
    let is_lower = |set: &SetReport| set.max_ttl_ms <= wanted && set.quarantine_ms <= quarantine_of(args.max_ttl);
    let Some(before) = seen(set).await? else { return Ok(false) };
    if !shows_set(set, &before) {
        return Ok(false);
    }
    if let Some(known) = before.set.as_ref().filter(|_| before.quorum && before.all_sets(is_lower)) {
        say!("nothing to do: {}", known.is_short_already(wanted));
        return print(set, &before, Report::members);
    }
    let lowering = async {
        tokio::select! {
            lowered = locks.lower_max_ttl(args.max_ttl) => lowered,
            never = report_progress(&locks) => match never {},
        }
    };
    say!("waiting until max_ttl is {wanted} ms, and every lock has ended that may live longer");
    match timeout(set.timeout.unwrap_or(Duration::MAX), lowering).await {
        Ok(lowered) => lowered?,
        Err(_) => say!("not done in time; what was done stays done: run this again"),
    }
    let report = Report::of(&locks).await;
    let is_printed = print(set, &report, Report::members)?;
    let done = report.all_sets(is_lower);
    if !done {
        say!(
            "max_ttl or the quarantine is still longer; is there a service with a longer max_ttl? It raises them again."
        );
    }
    Ok(is_printed && done)
}

/// The quarantine of a set with this `max_ttl`: it includes the drift of clocks.
fn quarantine_of(max_ttl: Duration) -> u128 {
    quarantine_length(max_ttl).as_millis()
}

async fn report_progress(locks: &LockManager) -> Infallible {
    let mut shown = String::new();
    loop {
        let outlook = Report::of(locks).await.outlook();
        if outlook != shown {
            say!("{outlook}");
            shown = outlook;
        }
        sleep(POLL).await;
    }
}

fn print(set: &SetArgs, report: &Report, text: fn(&Report) -> String) -> Result<bool, Box<dyn Error>> {
    output::print(set, report, || text(report))
}
