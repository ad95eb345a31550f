#!/usr/bin/env bash
# Every Rust test: with cargo-nextest where it is, else with cargo test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.tools/bin:$PATH"
if command -v cargo-nextest >/dev/null 2>&1; then
    cargo nextest run --workspace "$@"
else
    cargo test --workspace "$@"
fi
