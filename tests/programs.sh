# The programs that the tests need, and what to leave out without them. For tests/run.sh, which sources this.

# The words of SKIP, each with the packages of Debian that its tests need.
declare -A packages=(
    [redis]="redis-server redis-sentinel"
    [postgres]="postgresql pgbouncer"
    # The jar alone: the package `zookeeper` would bring a desktop's Java.
    [zookeeper]="libzookeeper-java default-jre-headless"
    [chromium]="chromium"
    [prometheus]="prometheus"
    [lua]="lua5.1"
)
# What is there if a package is. Debian does not have the servers of PostgreSQL in the PATH.
declare -A programs=(
    [redis-server]="redis-server"
    [redis-sentinel]="redis-sentinel"
    [postgresql]="postgres /usr/lib/postgresql/*/bin/postgres"
    [pgbouncer]="pgbouncer /usr/sbin/pgbouncer"
    [libzookeeper-java]="/usr/share/java/zookeeper.jar"
    [default-jre-headless]="java"
    [chromium]="chromium chromium-browser google-chrome"
    [prometheus]="prometheus"
    [lua5.1]="luac5.1 luac"
)
# The words that a file of tests needs. Those that are not here need no program.
declare -A needs=(
    [chaos]="redis postgres zookeeper"
    [fake_redis]="redis"
    [faults]="redis postgres zookeeper"
    [operations]="redis postgres zookeeper"
    [postgres]="postgres redis"
    [redis]="redis"
    [saga]="redis"
    # The page of examples/inventory in a browser, and its dashboard and alerts with a Prometheus that scrapes it.
    [serve]="redis postgres chromium prometheus"
    [worker]="redis"
    [zookeeper]="zookeeper"
)
# What SKIP leaves out: whole files, and from other files the tests whose paths have one of these parts.
declare -A skipped_files=(
    [redis]="chaos fake_redis operations redis saga worker"
    [postgres]="postgres"
    [zookeeper]="zookeeper"
)
declare -A skipped_names=(
    [redis]="redis_exclusion:: redis_faults:: redis_outages:: on_real_servers of_redis_and_ a_redis_server real_masters"
    [postgres]="postgresql"
    [zookeeper]="zookeeper of_an_ensemble an_ensemble_is_named"
    [chromium]="browser:: the_dashboard_shows_locks_and_masters"
    [prometheus]="grafana:: alerts::"
)

# has WORD WORDS: whether it is one of them.
has() {
    [[ " $2 " == *" $1 "* ]]
}

# The words of SKIP, which have commas between them.
read_skip() {
    skip=${SKIP-}
    skip=${skip//,/ }
    local word
    for word in $skip; do
        if [ -z "${packages[$word]-}" ]; then
            echo "SKIP has \`$word\`, which is none of: ${!packages[*]}" >&2
            exit 2
        fi
    done
}

is_skipped_file() {
    local word
    for word in $skip; do
        if has "$1" "${skipped_files[$word]-}"; then
            return
        fi
    done
    return 1
}

# The parts of paths that have to be skipped in all files.
parts_to_skip() {
    local word
    for word in $skip; do
        echo "${skipped_names[$word]-}"
    done
}

# tests_in FILE: the paths of its tests.
tests_in() {
    local source module
    while read -r source; do
        module=$(basename "$source" .rs)::
        if [ "$module" = "$1::" ]; then
            module=
        fi
        awk -v module="$module" '
            /^ *#\[(tokio::)?test/ { test = 1 }
            test && match($0, /fn [a-z0-9_]+/) { print module substr($0, RSTART + 3, RLENGTH - 3); test = 0 }
        ' "$source"
    done < <(find tests/*/tests examples/*/tests -path "*/tests/$1.rs" -o -path "*/tests/$1/*.rs" | sort)
}

# list_left_out FILE...: says which tests of these files do not run.
list_left_out() {
    local file part path
    for file in "$@"; do
        while read -r path; do
            if is_skipped_file "$file"; then
                echo "left out by SKIP: $file $path"
                continue
            fi
            for part in $(parts_to_skip); do
                if [[ $path == *"$part"* ]]; then
                    echo "left out by SKIP: $file $path"
                    break
                fi
            done
        done < <(tests_in "$file")
    done
    if has lua "$skip"; then
        echo "left out by SKIP: the syntax of the Lua scripts"
    fi
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

is_there() {
    # The pattern is for `first_of`, and a shell that expands it before makes no difference.
    # shellcheck disable=SC2086
    first_of ${programs[$1]} >/dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

install() {
    command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
    if has postgresql "$*"; then
        # Debian would start a server, which the tests do not need.
        as_root mkdir -p /etc/postgresql-common/createcluster.d
        echo "create_main_cluster = false" | as_root tee /etc/postgresql-common/createcluster.d/no-main.conf >/dev/null
    fi
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# need WORD...: installs what is missing for these words, or says how to do without.
need() {
    local word package missing=() words=() left=()
    for word in "$@"; do
        if has "$word" "$skip" || has "$word" "${words[*]-}"; then
            continue
        fi
        for package in ${packages[$word]}; do
            if ! is_there "$package"; then
                missing+=("$package")
                has "$word" "${words[*]-}" || words+=("$word")
            fi
        done
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi
    left=($skip "${words[@]}")
    echo "These tests need packages that are missing: ${missing[*]}"
    echo "To leave out the tests that need them, run SKIP=$(IFS=,; echo "${left[*]}") bash tests/run.sh"
    echo "Installing them now: apt-get install ${missing[*]}"
    install "${missing[@]}" </dev/null || true
    for package in "${missing[@]}"; do
        if ! is_there "$package"; then
            echo "Could not install $package. Install it, or something that has ${programs[$package]}; or leave its tests out, as above." >&2
            exit 1
        fi
    done
}
