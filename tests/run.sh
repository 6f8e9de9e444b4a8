#!/usr/bin/env bash
# Runs the tests of the workspace:
#
#     bash tests/run.sh                 the short run
#     bash tests/run.sh --long          the short run, and then the long models, seeds and chaos
#     bash tests/run.sh -- ARGUMENTS    the short run, with arguments for each of its programs, as in `-- --include-ignored`
#     bash tests/run.sh ARGUMENTS       what `cargo test` runs with these arguments, as in `--test redis test_votes`
#
# The tests need redis-server, redis-sentinel, PostgreSQL, PgBouncer, ZooKeeper, luac of Lua 5.1, Chromium, and Prometheus. Where one of them is
# missing, it is installed if apt-get is there and allowed.
# They also need cc, as Rust does, for servers whose clock is wrong. One test needs Node.js and npm, and is left out without.
set -euo pipefail
cd "$(dirname "$0")/.."

long=false
if [ "${1-}" = --long ]; then
    long=true
    shift
fi

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

# install PACKAGE
install() {
    command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
    if [ "$1" = postgresql ]; then
        # Debian would start a server, which the tests do not need.
        as_root mkdir -p /etc/postgresql-common/createcluster.d
        echo "create_main_cluster = false" | as_root tee /etc/postgresql-common/createcluster.d/no-main.conf >/dev/null
    fi
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1"
}

# The first of some programs that is in the PATH, or whose path matches a pattern.
first_of() {
    local program
    for program in "$@"; do
        if command -v "$program" || compgen -G "$program"; then
            return
        fi
    done
    return 1
}

# need PACKAGE WHAT PROGRAM...
need() {
    local package=$1 what=$2
    shift 2
    if first_of "$@" >/dev/null; then
        return
    fi
    echo "$1 is missing; installing it"
    if ! install "$package" </dev/null || ! first_of "$@" >/dev/null; then
        echo "The tests need $what in the PATH. Install it, for example with \`apt-get install $package\`." >&2
        exit 1
    fi
}

need redis-server "redis-server 6.2 or newer" redis-server
redis-server --version

need redis-sentinel redis-sentinel redis-sentinel

# Debian does not have the server in the PATH.
need postgresql PostgreSQL postgres '/usr/lib/postgresql/*/bin/postgres'

need pgbouncer PgBouncer pgbouncer /usr/sbin/pgbouncer

# The jar alone: the package `zookeeper` would bring a desktop's Java.
need libzookeeper-java ZooKeeper /usr/share/java/zookeeper.jar
need default-jre-headless Java java

need lua5.1 "luac of Lua 5.1, the version inside Redis," luac5.1 luac
luac=$(first_of luac5.1 luac)
for script in lock-core/src/node/redis/scripts/*.lua lock-axum/src/fence/*.lua; do
    "$luac" -p "$script"
done

# The tests of the page of examples/inventory look at it in a browser.
need chromium Chromium chromium chromium-browser google-chrome

# The dashboard and the alerts of examples/inventory ask a Prometheus that scrapes it.
need prometheus Prometheus prometheus

# One test runs a client in Node.js beside ours. It says so when it cannot.
if command -v npm >/dev/null && [ ! -d tests/suite/mixed/node_modules ]; then
    npm install --prefix tests/suite/mixed --no-audit --no-fund </dev/null || echo "The packages for Node.js are not installed." >&2
fi

# The benchmarks bring the most dependencies, and no promise rests on their tests.
tests=(cargo test --workspace --exclude lock-bench --all-features)
# Fewer seeds would not show every fault.
export SIMULATION_SEEDS=${SIMULATION_SEEDS:-60}
# Most tests wait for servers and timers, so the machine has room for more of them than it has cores.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(getconf _NPROCESSORS_ONLN)))}

# The tests that wait, for servers or in real time, and leave the processors idle.
waiting=(chaos core faults http operations postgres redis saga serve worker zookeeper)

# All other files of tests.
computing() {
    cargo metadata --no-deps --format-version 1 | grep -o '"kind":\["test"\],"crate_types":\["bin"\],"name":"[^"]*"' |
        cut -d '"' -f 12 | grep -vx bench | grep -vxF "$(printf '%s\n' "${waiting[@]}")"
}

# What computes has only what the others leave of the processors, so nothing that they measure takes longer for it.
compute() {
    local targets
    targets=$(computing | sed 's/^/--test=/')
    mapfile -t targets <<<"$targets"
    nice -n 19 "${tests[@]}" --no-fail-fast --lib --bins "${targets[@]}" "$@"
    nice -n 19 "${tests[@]}" --doc
}

# Ends the jobs that still run, and all servers that they have started. What was stopped has to go on for that.
end() {
    local group
    for group in $(jobs -p); do
        kill -TERM -- "-$group"
        kill -CONT -- "-$group"
    done
    wait
    rm -f "$log"
}

# Runs the tests that wait beside those that compute, whose output follows at the end.
side_by_side() {
    local failed=()
    "${tests[@]}" --no-run
    log=$(mktemp)
    trap end EXIT
    set -m # Each job is a group of processes.
    compute "$@" >"$log" 2>&1 &
    "${tests[@]}" --no-fail-fast "${waiting[@]/#/--test=}" "$@" &
    wait %2 || failed+=("that wait")
    wait %1 || failed+=("that compute")
    cat "$log"
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'tests %s: failed\n' "${failed[@]}" >&2
        exit 1
    fi
}

if [ "${1---}" = -- ]; then
    side_by_side "$@" </dev/null
else
    "${tests[@]}" "$@" </dev/null
fi

if $long; then
    # The tests that are too long for the short run are marked as ignored.
    "${tests[@]}" --lib --bins --tests -- --ignored </dev/null
    cargo test -p lock-bench </dev/null
    cargo run --release -p lock-model -- all </dev/null
    for scenario in promised clock-jumps amnesia; do
        cargo run --release -p lock-sim -- "$scenario" 1 5000 </dev/null
    done
    cargo run --release -p lock-chaos -- --seconds 300 </dev/null
    cargo run --release -p lock-chaos -- --membership --seconds 300 </dev/null
fi
