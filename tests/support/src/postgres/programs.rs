//! The programs of PostgreSQL, where they are, who runs them, and the directory that every server begins with.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::redis::Clock;

/// How long a login may take. The default is a minute.
pub(super) const LOGIN_TIMEOUT: Duration = Duration::from_secs(3);

/// A directory that `initdb` has filled, once on this machine for each version.
pub(super) fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        // "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
        let version = Command::new(program("postgres")).arg("--version").output().expect("PostgreSQL is installed");
        let version = String::from_utf8(version.stdout).unwrap();
        let version = version.split_whitespace().nth(2).unwrap();
        let template = std::env::temp_dir().join(format!("lock-tests-postgresql-{version}-{}", user_id()));
        if !template.exists() {
            let directory = TempDir::new().unwrap();
            give_away(directory.path());
            let mut initdb = unprivileged("initdb");
            initdb.arg("-D").arg(directory.path().join("data")).args(["-U", "postgres", "-A", "trust", "--no-sync"]);
            let output = initdb.args(["--locale=C", "-E", "UTF8", "--wal-segsize=1"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            drop_templates(directory.path());
            // Another process may have been faster. Its directory is as good.
            if fs::rename(directory.path(), &template).is_ok() {
                _ = directory.keep();
            }
        }
        template
    })
}

/// Drops the databases that others are created from: half of what is copied for every server, and no test creates any.
fn drop_templates(directory: &Path) {
    let mut single = unprivileged("postgres");
    single.arg("--single").arg("-F").arg("-D").arg(directory.join("data")).arg("postgres").stdin(Stdio::piped());
    let mut single = single.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("PostgreSQL is installed");
    // A statement ends with its line.
    let sql = b"UPDATE pg_database SET datistemplate = false\nDROP DATABASE template0\nDROP DATABASE template1\n";
    single.stdin.take().unwrap().write_all(sql).unwrap();
    assert!(single.wait().unwrap().success());
}

pub(super) fn spawn(port: u16, directory: &Path, arguments: &[String], clock: Option<&Clock>) -> Child {
    let mut command = unprivileged("postgres");
    command.envs(clock.map(Clock::environment).into_iter().flatten());
    command.arg("-D").arg(directory.join("data")).args(["-p", &port.to_string(), "-F"]);
    command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
    command.args(["-c", &format!("authentication_timeout={}", LOGIN_TIMEOUT.as_secs())]).args(arguments);
    let log = File::create(directory.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("PostgreSQL is installed")
}

/// Runs SQL on a new connection, and returns its rows: one a line, with `|` between the columns.
pub(super) async fn psql(url: &str, sql: &str) -> String {
    let mut psql = Command::new(program("psql"));
    psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql, url]);
    // It may wait for a transaction that a task of this runtime has to end.
    let output = spawn_blocking(move || psql.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Copies a directory with its owner.
pub(super) fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap().success());
}

fn user_id() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Makes the user `postgres` the owner of a directory or file, if it is that user who will run the server.
pub(super) fn give_away(path: &Path) {
    if user_id() == 0 {
        assert!(Command::new("chown").arg("postgres:postgres").arg(path).status().unwrap().success());
    }
}

/// A program of PostgreSQL. Root may not run the server, so the user `postgres` does.
pub(super) fn unprivileged(name: &str) -> Command {
    if user_id() != 0 {
        return Command::new(program(name));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program(name));
    command
}

/// Where a program of PostgreSQL is: Debian does not have the server in the `PATH`.
pub(super) fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin").join(name)).filter(|program| program.exists());
    programs.max().unwrap_or_else(|| name.into())
}
