//! The command line.

use std::{net::SocketAddr, ops::RangeInclusive};

use clap::{Args, Parser, Subcommand, builder::RangedI64ValueParser, value_parser};
use inventory::{Config, Database, Mode};

/// Sell one product to many buyers through several instances of a shop, with and without
/// distributed locks, and print how many units were oversold.
///
/// Nothing needs to be installed. The lock masters are in memory unless --redis is given, and the
/// database is a temporary SQLite file unless --database is given.
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
    /// the end. In PostgreSQL, the tables are `stock`, `orders`, `supply` and `lock_fence`.
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) database: Option<Database>,
}

#[derive(Args)]
pub(crate) struct MasterArgs {
    /// URL of a Redis master, such as `redis://127.0.0.1:6379`; repeat for each one, an odd number in total.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Vec<String>,
    /// Prefix of the keys on Redis; always use a prefix with the same set of masters.
    #[arg(long, value_name = "PREFIX", default_value = "inventory:")]
    pub(crate) prefix: String,
}

fn within(range: RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    let (from, to) = range.into_inner();
    value_parser!(u32).range(i64::from(from)..=i64::from(to))
}
