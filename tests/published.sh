#!/usr/bin/env bash
# What users of the three crates and of lockctl depend on, and the tests of this workspace do not show:
#
#     bash tests/published.sh             all of it
#     bash tests/published.sh files       each package has what it needs, nothing else, and is not too large; cargo has nothing to complain about
#     bash tests/published.sh build       each crate builds from the files of its package alone
#     bash tests/published.sh install     `cargo install` installs lockctl, with the versions in Cargo.lock and with the newest
#     bash tests/published.sh features    each crate builds with each set of its features
#     bash tests/published.sh docs        the documentation builds as on docs.rs; needs a nightly toolchain
#     bash tests/published.sh minimal     the crates build with the oldest dependencies that they allow; needs a nightly toolchain
#     bash tests/published.sh msrv        the crates build with the oldest Rust that they promise; needs that toolchain
#     bash tests/published.sh deny        the dependencies have licenses and sources that deny.toml allows, and users get each once
#     bash tests/published.sh advisories  no dependency has a known vulnerability or nobody who cares for it; needs github.com
#     bash tests/published.sh spelling    the words are spelled right
#
# and, when there is a release to compare with, by its tag or any other name that git has for it:
#
#     bash tests/published.sh semver v0.1.0   nothing that users depend on has changed more than the version says
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(lock-core lock-macros lock-axum)
each=("${crates[@]/#/--package=}")
packages=("${crates[@]}" lockctl)
packaged=("${packages[@]/#/--package=}")
scratch=$(mktemp -d)
copy=$scratch/copy
trap 'rm -rf "$scratch"' EXIT

# In KiB, compressed: half as large again as they are. Much more would be a file that got in by mistake.
declare -A largest=([lock-core]=640 [lock-macros]=80 [lock-axum]=200 [lockctl]=70)

folder_of() {
    if [ -d "$1" ]; then echo "$1"; else echo "examples/$1"; fi
}

files() {
    local log crate manifest file key other size
    log=$(cargo package "${packaged[@]}" --no-verify --offline --allow-dirty --target-dir "$scratch/files" 2>&1) || { echo "$log"; return 1; }
    echo "$log"
    if grep -q '^warning' <<<"$log"; then
        echo "there are warnings"
        return 1
    fi
    for crate in "${packages[@]}"; do
        manifest=$(folder_of "$crate")/Cargo.toml
        log=$(cargo package -p "$crate" --list --offline --allow-dirty)
        for file in README.md LICENSE-MIT LICENSE-APACHE 'src/\(lib\|main\)\.rs'; do
            grep -qx "$file" <<<"$log" || { echo "the package of $crate lacks $file"; return 1; }
        done
        other=$(grep -vxE '\.cargo_vcs_info\.json|Cargo\.(lock|toml|toml\.orig)|README\.md|LICENSE-(MIT|APACHE)|src/.*\.(rs|lua|sql|html)|tests/.*\.rs' \
            <<<"$log") && { echo "the package of $crate should not have" "$other"; return 1; }
        for key in description version edition rust-version license repository documentation readme keywords categories; do
            grep -qE "^$key(\.workspace)? = " "$manifest" || { echo "$manifest lacks $key"; return 1; }
        done
        size=$(($(stat -c %s "$scratch/files/package/$crate-"*.crate) / 1024))
        echo "the package of $crate has $size KiB, of ${largest[$crate]} that it may have"
        ((size <= largest[$crate])) || { echo "that is too large"; return 1; }
    done
}

# In a new directory: by its path, cargo would find the packages of an earlier run again, and build those.
build() {
    cargo package "${packaged[@]}" --all-features --allow-dirty --target-dir "$scratch/target"
}

install() {
    local chosen
    for chosen in --locked --features=tls; do
        echo "cargo install $chosen --path examples/lockctl"
        cargo install "$chosen" --path examples/lockctl --root "$scratch/installed" --target-dir "$scratch/target" --debug --force
        "$scratch/installed/bin/lockctl" --version
    done
}

# The features of a crate, each with a line. Those that are on by default are in no other way special.
features_of() {
    sed -n '/^\[features\]/,/^\[/s/^\([a-z0-9_-]*\) = .*/\1/p' "$1/Cargo.toml" | grep -vx default
}

features() {
    local crate names set chosen bit
    for crate in "${crates[@]}"; do
        mapfile -t names < <(features_of "$crate")
        for ((set = 0; set < 1 << ${#names[@]}; set++)); do
            chosen=()
            for bit in "${!names[@]}"; do
                if ((set >> bit & 1)); then
                    chosen+=("${names[bit]}")
                fi
            done
            echo "$crate: ${chosen[*]:-no features}"
            cargo clippy -q -p "$crate" --lib --no-default-features --features "${chosen[*]}" -- -D warnings
        done
    done
}

docs() {
    RUSTDOCFLAGS="-D warnings --cfg docsrs" cargo +nightly doc "${each[@]}" --no-deps --all-features
}

# Makes a copy without the other members of the workspace and without what only tests depend on: their dependencies are none of a
# user's.
make_copy() {
    rm -rf "$copy"
    mkdir "$copy"
    cp -rL Cargo.toml README.md "${crates[@]}" "$copy"
    sed -i '/^members = \[/,/^\]/c members = ["lock-core", "lock-macros", "lock-axum"]' "$copy/Cargo.toml"
    sed -i '/^\[dev-dependencies\]/,/^$/d' "$copy"/lock-*/Cargo.toml
}

minimal() {
    make_copy
    (cd "$copy" && cargo +nightly generate-lockfile -Z direct-minimal-versions)
    cargo check --manifest-path "$copy/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-target}/minimal" --all-features
}

# need INSTALL PROGRAM...
need() {
    local install=$1
    shift
    if ! "$@" --version >/dev/null 2>&1; then
        echo "$* is missing; install it with \`$install\`" >&2
        return 1
    fi
}

# The feature with sqlx 0.9 is left out, as that needs Rust 1.94.
msrv() {
    local oldest newer crate names
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    # What the newest dependencies say of themselves that this version may use. It needs no old toolchain, and compiles nothing.
    make_copy
    newer=$(cd "$copy" && cargo generate-lockfile 2>&1 | grep -F '(requires Rust' | grep -vE ' sqlx(-[a-z-]+)? v0\.9\.' || true)
    if [ -n "$newer" ]; then
        echo "these dependencies need more than Rust $oldest:" "$newer"
        return 1
    fi
    echo "no dependency says that it needs more than Rust $oldest, but for sqlx 0.9"
    need "rustup toolchain install $oldest" cargo "+$oldest" || { echo "nothing was compiled with Rust $oldest" >&2; return 1; }
    for crate in "${crates[@]}"; do
        names=$(features_of "$crate" | grep -vx sqlx-0_9 || true)
        cargo "+$oldest" check -p "$crate" --no-default-features --features "${names//$'\n'/ }" --locked
    done
}

deny() {
    need "cargo install --locked cargo-deny" cargo deny
    cargo deny check licenses sources
    # The tests and the examples may have two versions of a crate.
    cargo deny --manifest-path lock-axum/Cargo.toml --exclude-dev check bans
}

advisories() {
    need "cargo install --locked cargo-deny" cargo deny
    cargo deny check advisories
}

spelling() {
    need "cargo install --locked typos-cli" typos
    typos . .ci .github
}

semver() {
    need "cargo install --locked cargo-semver-checks" cargo semver-checks
    cargo semver-checks "${each[@]}" --all-features --baseline-rev "$1"
}

if [ "${1-}" = semver ]; then
    semver "${2:?the release to compare with is missing, for example v0.1.0}"
    exit
fi
if [ $# -eq 0 ]; then
    set -- files build install features docs minimal msrv deny advisories spelling
fi
for part in "$@"; do
    case $part in
        files | build | install | features | docs | minimal | msrv | deny | advisories | spelling) printf '\n== %s\n' "$part" && "$part" ;;
        *) echo "unknown part: $part" >&2 && exit 2 ;;
    esac
done
