//! The command line.

use std::{net::SocketAddr, ops::RangeInclusive};

use clap::{Args, Parser, Subcommand, builder::RangedI64ValueParser, value_parser};
use inventory::{Config, Database, LockStore, Mode};

/// Sell one product to many buyers through several instances of a shop, with and without
/// distributed locks, and print how many units were oversold.
///
/// Nothing needs to be installed. The lock masters are in memory unless --redis, --postgres or --zookeeper is
/// given, and the database is a temporary SQLite file unless --database is given.
///
/// Exit status: 0 if every guarded mode sold exactly what it could; 1 if one oversold or left units
/// unsold; 2 if the run failed or an argument is invalid; 130 after Ctrl-C; 143 after SIGTERM.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the shop as a service, with a page to watch and to break it, until Ctrl-C or SIGTERM.
    Serve(ServeArgs),
    /// Run two buyers against the handlers of the shop in every order of their steps that matters, and print the schedules that oversell.
    ///
    /// Nothing needs to be installed. Exit status: 0 if each handler was found by the question that should find it, and the one that claims
    /// its fence by none; 1 if not; 2 if the run failed or an argument is invalid.
    Trial(TrialArgs),
}

#[derive(Args)]
pub(crate) struct TrialArgs {
    /// Print the report as JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Units in stock, 1 to 10000.
    #[arg(long, default_value_t = Config::default().stock, value_parser = within(Config::STOCK))]
    pub(crate) stock: u32,
    /// Buyers of one unit each, 1 to 10000.
    #[arg(long, default_value_t = Config::default().buyers, value_parser = within(Config::BUYERS))]
    pub(crate) buyers: u32,
    /// Instances of the shop, 1 to 16.
    #[arg(long, default_value_t = Config::default().instances, value_parser = within(Config::INSTANCES))]
    pub(crate) instances: u32,
    /// Run only this mode; repeat for several.
    #[arg(long = "mode", value_name = "MODE")]
    pub(crate) modes: Vec<Mode>,
    /// Print the report as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) masters: MasterArgs,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Allow the page's controls from other machines, without any authentication.
    #[arg(long)]
    pub(crate) public: bool,
    #[command(flatten)]
    pub(crate) masters: MasterArgs,
}

#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// SQLite file, or PostgreSQL as `postgres://user@host/database`; by default, a temporary file that is removed at
    /// the end. In PostgreSQL, which needs a build with `--features postgres`, the tables are `stock`, `orders`, `supply`
    /// and `lock_fence`.
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) database: Option<Database>,
}

#[derive(Args)]
pub(crate) struct MasterArgs {
    /// URL of a Redis master, such as `redis://127.0.0.1:6379`; repeat for each one, an odd number in total.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", value_parser = redis_url)]
    redis: Vec<String>,
    /// URL of a PostgreSQL master, such as `postgres://user@127.0.0.1/database`; repeat for each one, an odd number in
    /// total. One is enough. The tables are in the schema `locks`. Needs a build with `--features postgres`.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", value_parser = postgres_url)]
    #[arg(conflicts_with = "redis")]
    postgres: Vec<String>,
    /// Address of a ZooKeeper ensemble, such as `zk-1:2181,zk-2:2181,zk-3:2181/locks`. Needs a build with
    /// `--features zookeeper`.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "", value_parser = zookeeper_address)]
    #[arg(conflicts_with_all = ["redis", "postgres"])]
    zookeeper: Option<String>,
    /// Prefix of the keys of the locks; always use a prefix with the same set of masters.
    #[arg(long, value_name = "PREFIX", default_value = "inventory:")]
    pub(crate) prefix: String,
}

impl MasterArgs {
    /// Where the locks are kept.
    pub(crate) fn store(self) -> LockStore {
        match (self.redis, self.postgres, self.zookeeper) {
            (_, _, Some(address)) => LockStore::ZooKeeper(address),
            (redis, ..) if !redis.is_empty() => LockStore::Redis(redis),
            (_, postgres, _) if !postgres.is_empty() => LockStore::Postgres(postgres),
            _ => LockStore::InMemory,
        }
    }
}

fn redis_url(url: &str) -> Result<String, String> {
    named(url, "redis-server --port 6379", "redis://127.0.0.1:6379")
}

fn postgres_url(url: &str) -> Result<String, String> {
    let start = "docker run --rm -p 5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres";
    named(url, start, "postgres://postgres@127.0.0.1/postgres")
}

fn zookeeper_address(address: &str) -> Result<String, String> {
    named(address, "docker run --rm -p 2181:2181 zookeeper", "127.0.0.1:2181")
}

/// The URL, if there is one. Nothing is started here.
fn named(url: &str, start: &str, example: &str) -> Result<String, String> {
    if url.is_empty() {
        return Err(format!("no master is named; start one with `{start}`, and name it: {example}"));
    }
    Ok(url.to_owned())
}

fn within(range: RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    let (from, to) = range.into_inner();
    value_parser!(u32).range(i64::from(from)..=i64::from(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<LockStore, String> {
        let cli = Cli::try_parse_from(arguments.split(' ')).map_err(|error| error.to_string())?;
        Ok(cli.bench.masters.store())
    }

    #[test]
    fn the_locks_are_in_memory_unless_masters_are_named() {
        assert_eq!(parse("inventory --json"), Ok(LockStore::InMemory));
        let two = vec!["redis://a".to_owned(), "redis://b".to_owned()];
        assert_eq!(parse("inventory --redis redis://a --redis redis://b"), Ok(LockStore::Redis(two)));
        let one = vec!["postgres://a@b/c".to_owned()];
        assert_eq!(parse("inventory --postgres postgres://a@b/c --json"), Ok(LockStore::Postgres(one)));
        assert_eq!(parse("inventory --zookeeper a,b/locks"), Ok(LockStore::ZooKeeper("a,b/locks".to_owned())));
    }

    #[test]
    fn a_store_without_a_master_is_an_error_that_says_how_to_start_one() {
        for (store, start) in [("redis", "redis-server"), ("postgres", "docker run"), ("zookeeper", "docker run")] {
            let error = parse(&format!("inventory --{store} --json")).unwrap_err();
            assert!(error.contains("start one with") && error.contains(start), "{error}");
        }
    }
}
