#!/usr/bin/env bash
# Two releases side by side: builds the programs of another revision, and runs fifty conversations on a fleet of which
# every second gateway and worker is of that revision, while all workers are replaced.
#   tests/mixed.sh REVISION        a tag or commit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
revision="${1:?tests/mixed.sh REVISION}"
commit="$(git rev-parse --verify "$revision^{commit}")"
tests/setup.sh
target="${CARGO_TARGET_DIR:-$PWD/target}"
source="$target/releases/$commit"
if [ ! -d "$source" ]; then
    mkdir -p "$target/releases"
    git worktree prune
    git worktree add --quiet --detach "$source" "$commit"
fi
echo "building $revision" >&2
(cd "$source" && CARGO_TARGET_DIR="$target/releases/target" cargo build --quiet -p gateway -p worker --bins)
cargo build --quiet --workspace --bins
export OTHER_RELEASE="$target/releases/target/debug"
exec cargo test --quiet --workspace --test it nobody_notices_that_all_workers_are_replaced
