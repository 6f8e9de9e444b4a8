//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use humantime::parse_duration;

/// Shows who the masters of a set of locks are, and waits for changes of it.
///
/// Nothing is changed by hand: the list of masters that the services are started with makes the change, and lockctl is one
/// more client with such a list. So give it the list that the services have, or are to have. docs/operations.md has the steps
/// for each case.
///
/// Exit status: 0 if all is well, or done; 1 if not; 2 if an argument is invalid; 130 after Ctrl-C; 143 after SIGTERM.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ask each master whether it votes, and what keeps it from voting.
    Health(SetArgs),
    /// Show who has the seats of the set. Status 0 if all of them vote.
    Members(SetArgs),
    /// Wait until every master of the list votes. Give the new list: that it is used makes the change.
    Replace(SetArgs),
    /// Form a set although masters are missing, or a majority of the masters lost its data.
    Form(FormArgs),
    /// Lower the longest time to live that locks of the set may have. This takes as long as the longest lock may live.
    ///
    /// Only when no service with a longer `max_ttl` runs. Raising it needs no command: a service with a longer one does that.
    MaxTtl(MaxTtlArgs),
}

/// The set, and how to report about it.
#[derive(Args)]
pub(crate) struct SetArgs {
    /// URL of a master, such as `redis://10.0.0.1:6379`; repeat it for each one, an odd number in total.
    ///
    /// Other users of the machine can see the arguments of a process: put passwords in the variable.
    #[arg(
        long = "redis",
        env = "LOCK_URLS",
        value_name = "URL",
        value_delimiter = ',',
        required = true,
        hide_env_values = true
    )]
    pub(crate) urls: Vec<String>,
    /// Prefix of the keys, as the services have it.
    #[arg(long, default_value = "lock:")]
    pub(crate) prefix: String,
    /// Name of the set, as the services have it.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) set_name: String,
    /// Trust a durable master, if it is the only one, as the services do: see `assume_durable` of the builder.
    #[arg(long)]
    pub(crate) assume_durable: bool,
    /// Give up after this time, such as 90s. By default, wait as long as it takes.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print the result as JSON on the standard output. Progress goes to the standard error.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FormArgs {
    #[command(flatten)]
    pub(crate) set: SetArgs,
    /// The longest `max_ttl` that any service of the set ever had. All masters grant nothing for that long.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_ttl: Duration,
    /// Do it. Without this, say what it means.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct MaxTtlArgs {
    /// The new `max_ttl`, such as 30s.
    #[arg(value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_ttl: Duration,
    #[command(flatten)]
    pub(crate) set: SetArgs,
}
