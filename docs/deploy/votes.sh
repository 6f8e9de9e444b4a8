#!/bin/sh
# Whether this master votes: `sh votes.sh`, with the arguments that redis-cli needs to reach it, and its password in REDISCLI_AUTH.
#
# Status 0 if the services have admitted the server that runs now. They admit one when its quarantine is over, and write an epoch into its
# record. A server that restarted has another run id than the record, until the services have noticed.
record='lock:{node}' # With the prefix of the services.

info() {
    redis-cli "$@" | tr -d '\r' | sed -n 's/^run_id://p; s/^master_replid://p'
}

field() {
    name=$1
    shift
    redis-cli "$@" HMGET "$record" "$name"
}

runs="$(info "$@" INFO server)/$(info "$@" INFO replication)"
[ "$runs" != / ] && [ "$(field run_id "$@")" = "$runs" ] && [ -n "$(field epoch "$@")" ]
