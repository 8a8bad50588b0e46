# shellcheck shell=bash
# What the scripts share.  Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# scapy and the reader of HdrHistogram logs, for tests: see scripts/setup --tests.
# shellcheck disable=SC2034
test_venv=$root/target/test-venv
# cargo-fuzz, which scripts/setup --tests builds.
# shellcheck disable=SC2034
tools=$root/target/tools

# Where rustup puts cargo, which a shell that was open before does not have in its PATH.
cargo_bin=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
case ":$PATH:" in
    *":$cargo_bin:"*) ;;
    *) PATH=$PATH:$cargo_bin ;;
esac

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "error: $*"
    exit 1
}

# The directory that cargo builds into.
target_dir() {
    cargo metadata --manifest-path "$root/Cargo.toml" --no-deps --format-version 1 |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# The name of a Chromium, nothing where there is none.
chromium() {
    local name
    for name in chromium chromium-browser google-chrome chrome; do
        if type -P "$name" >/dev/null; then
            echo "$name"
            return
        fi
    done
}
