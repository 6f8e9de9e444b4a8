#!/usr/bin/env bash
# Runs every test of the workspace. They need redis-server, which is installed when it is missing and that is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

install_redis() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            return 1
        fi
        as_root=(sudo -n)
    fi
    command -v apt-get >/dev/null || return 1
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y redis-server
}

if ! command -v redis-server >/dev/null; then
    echo "redis-server is missing; installing it"
    if ! install_redis </dev/null || ! command -v redis-server >/dev/null; then
        echo "The tests need redis-server 6.2 or newer in the PATH. Install it, for example with" >&2
        echo "    apt-get install redis-server    or    dnf install redis    or    brew install redis" >&2
        exit 1
    fi
fi
redis-server --version

cargo test --workspace "$@" </dev/null
