//! The command line.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use humantime::parse_duration;

/// Shows who the masters of a set of locks are, and waits for changes of it. Shows who holds a lock, and takes it from them.
///
/// No set is changed by hand: the list of masters that the services are started with makes the change, and lockctl is one
/// more client with such a list. So give it the list that the services have, or are to have. docs/operations.md has the steps
/// for each case.
///
/// Exit status: 0 if all is well, or done; 1 if not; 2 if an argument is invalid; 130 after Ctrl-C; 143 after SIGTERM.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lockctl --redis redis://10.0.0.1 --redis redis://10.0.0.2 --redis redis://10.0.0.3 health
  lockctl members --sentinel 10.0.0.1:26379 --sentinel 10.0.0.2:26379 --sentinel-master mymaster
  export LOCK_URLS=redis://:secret@10.0.0.1,redis://:secret@10.0.0.2,redis://:secret@10.0.0.3
  lockctl health --json
  lockctl members
  lockctl replace --timeout 5m
  lockctl watch
  lockctl inspect stock:42
  lockctl force-release stock:42 --json
  lockctl completions bash > /etc/bash_completion.d/lockctl";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ask each master whether it votes, and what keeps it from voting. Status 0 if all of them vote.
    #[command(after_help = "\
Examples:
  lockctl health
  lockctl health --json --timeout 5s")]
    Health,
    /// Show who has the seats of the set. Status 0 if all of them vote.
    #[command(after_help = "\
Examples:
  lockctl members
  lockctl members --json --prefix shop:")]
    Members,
    /// Wait until every master of the list votes. Give the new list: that it is used makes the change.
    #[command(after_help = "\
Examples:
  lockctl replace --timeout 5m
  lockctl replace --redis redis://10.0.0.1 --redis redis://10.0.0.2 --redis redis://10.0.0.4")]
    Replace,
    /// Show the masters, and each change, until it is stopped or `--timeout` is over. With `--json`, a line for each state.
    #[command(after_help = "\
Examples:
  lockctl watch
  lockctl watch --json --timeout 1h")]
    Watch,
    /// Show who holds a lock and each of its permits, and what each master has of it. Status 0 if a majority of the masters replied.
    ///
    /// Holders are shown by tags: nobody can do anything with them.
    #[command(after_help = "\
Examples:
  lockctl inspect stock:42
  lockctl inspect export
  lockctl inspect 'export{2}'
  lockctl inspect stock:42 --json --prefix shop:")]
    Inspect(LockArgs),
    /// Take a lock from its holder. Status 0 if it was taken, or nobody held it.
    ///
    /// The former holder cannot renew, but it may work until it tries to: a third of its ttl, at most. What shuts it out at once is
    /// a claim of the printed token at what the lock protects.
    #[command(after_help = "\
Examples:
  lockctl force-release stock:42
  lockctl force-release 'export{2}'
  lockctl force-release stock:42 --json --prefix shop:")]
    ForceRelease(LockArgs),
    /// Form a set although masters are missing, or a majority of the masters lost its data. Status 0 if a majority votes.
    ///
    /// It does nothing, and says so, if there is a set already whose majority votes.
    #[command(after_help = "\
Examples:
  lockctl form --max-ttl 60s
  lockctl form --max-ttl 60s --yes")]
    Form(FormArgs),
    /// Lower the longest time to live that locks of the set may have. This takes as long as the longest lock may live.
    ///
    /// Only when no service with a longer `max_ttl` runs. Raising it needs no command: a service with a longer one does that. It does
    /// nothing, and says so, if `max_ttl` is not longer already.
    #[command(after_help = "\
Examples:
  lockctl max-ttl 30s")]
    MaxTtl(MaxTtlArgs),
    /// Print the script with which a shell completes the arguments of lockctl.
    #[command(after_help = "\
Examples:
  lockctl completions bash > /etc/bash_completion.d/lockctl
  lockctl completions zsh > ~/.zfunc/_lockctl
  lockctl completions fish > ~/.config/fish/completions/lockctl.fish")]
    Completions(CompletionsArgs),
}

/// The set, and how to report about it.
#[derive(Args)]
pub(crate) struct SetArgs {
    /// URL of a master, such as `redis://10.0.0.1:6379`; repeat it for each one, an odd number in total. One that begins with
    /// `postgres://` is a PostgreSQL master. An ensemble of ZooKeeper is one master: `zookeeper://10.0.0.1:2181,10.0.0.2:2181/locks`.
    ///
    /// Other users of the machine can see the arguments of a process: put passwords in the variable.
    #[arg(
        long = "redis",
        visible_aliases = ["postgres", "zookeeper"],
        env = "LOCK_URLS",
        value_name = "URL",
        value_delimiter = ',',
        global = true,
        hide_env_values = true
    )]
    pub(crate) urls: Vec<String>,
    /// Some servers of a Redis Cluster, which is one master: `redis://10.0.0.1,10.0.0.2`; repeat it for each cluster.
    ///
    /// Other users of the machine can see the arguments of a process: put a URL with a password in the variable.
    #[arg(
        long = "redis-cluster",
        env = "LOCK_CLUSTERS",
        value_name = "URL",
        value_delimiter = ' ',
        global = true,
        hide_env_values = true
    )]
    pub(crate) clusters: Vec<String>,
    /// The masters of one shard, where each shard has masters of its own: URLs with commas between them; repeat it for each shard, in the order
    /// that the services have.
    ///
    /// Other users of the machine can see the arguments of a process: put a URL with a password in the variable.
    #[arg(
        long = "set",
        env = "LOCK_SETS",
        value_name = "URLS",
        value_delimiter = ' ',
        global = true,
        hide_env_values = true
    )]
    pub(crate) sets: Vec<String>,
    /// Into how many shards the locks are divided, as the services have it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, global = true)]
    pub(crate) shards: u32,
    /// Address of a sentinel, such as `10.0.0.1:26379`; repeat it for each one. `--sentinel-master` says which master is theirs.
    #[arg(long = "sentinel", value_name = "ADDRESS", value_delimiter = ',', global = true)]
    pub(crate) sentinels: Vec<String>,
    /// Name of a master that the sentinels watch over, or a URL with the name instead of the host: `redis://user:password@mymaster`;
    /// repeat it for each one.
    ///
    /// Other users of the machine can see the arguments of a process: put a URL with a password in the variable.
    #[arg(
        long = "sentinel-master",
        env = "LOCK_SENTINEL_MASTERS",
        value_name = "NAME",
        value_delimiter = ',',
        global = true,
        hide_env_values = true
    )]
    pub(crate) sentinel_masters: Vec<String>,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: crate::tls::TlsArgs,
    /// Prefix of the keys, as the services have it.
    #[arg(long, default_value = "lock:", global = true)]
    pub(crate) prefix: String,
    /// Name of the set, as the services have it.
    #[arg(long, value_name = "NAME", default_value = "", global = true)]
    pub(crate) set_name: String,
    /// Trust a durable master, if it is the only one, as the services do: see `assume_durable` of the builder.
    #[arg(long, global = true)]
    pub(crate) assume_durable: bool,
    /// Give up after this time, such as 90s. By default, wait as long as it takes.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, global = true)]
    pub(crate) timeout: Option<Duration>,
    /// Print the result as JSON on the standard output. Progress goes to the standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct LockArgs {
    /// The name of the resource, such as `stock:42`, without the prefix. A permit of `export` is named by its slot: `export{0}`,
    /// `export{1}`.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Args)]
pub(crate) struct FormArgs {
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
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

impl Cli {
    /// The arguments of this process. Ends it if they are invalid.
    pub(crate) fn of_process() -> Self {
        let cli = Self::parse();
        // clap does not let an argument be both required and accepted on either side of the command.
        if let Some(missing) = cli.missing() {
            Self::command().error(ErrorKind::MissingRequiredArgument, missing).exit();
        }
        cli
    }

    /// What the command needs, and was not said.
    fn missing(&self) -> Option<&'static str> {
        match self.command {
            Command::Completions(_) => None,
            _ => self.set.missing(),
        }
    }
}

impl SetArgs {
    /// What has to be said of the masters, and is not.
    fn missing(&self) -> Option<&'static str> {
        match (self.sentinels.is_empty(), self.sentinel_masters.is_empty()) {
            (false, true) => {
                Some("--sentinel needs --sentinel-master: the name of the master that the sentinels watch over")
            }
            (true, false) => Some("--sentinel-master needs --sentinel: the addresses of the sentinels"),
            (true, true)
                if self.clusters.is_empty()
                    && self.sets.is_empty()
                    && self.urls.iter().all(|url| url.trim().is_empty()) =>
            {
                Some(
                    "no masters: name each with --redis or --postgres, an ensemble with --zookeeper, or all in LOCK_URLS; a URL begins \
                 with redis://, postgres:// or zookeeper://; or name sentinels with --sentinel, clusters with --redis-cluster, or the masters \
                 of each set with --set",
                )
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_every_command_has_examples_and_all_of_them_are_valid() {
        let program = Cli::command();
        for command in program.get_subcommands().chain([&program]) {
            let help = command.get_after_help().unwrap_or_else(|| panic!("{}", command.get_name())).to_string();
            let examples: Vec<&str> = help.lines().map(str::trim).filter(|line| line.starts_with("lockctl ")).collect();
            assert!(!examples.is_empty(), "{help}");
            for example in examples {
                let arguments = example.split(' ').take_while(|word| *word != ">");
                Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }
}
