#!/usr/bin/env bash
# Real documents out of public packages (tests/documents/fetch.sh) through the reader that workers use, against what
# other readers found in them. Needs what tests/setup.sh installs, and built binaries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
corpus=.tools/corpus
if [ ! -f "$corpus/reference.json" ]; then
    printf '\n*** SKIPPED: no documents in %s: a registry could not be reached when tests/setup.sh ran ***\n\n' "$corpus" >&2
    exit 0
fi
exec "${CARGO_BIN_DIR:-${CARGO_TARGET_DIR:-target}/debug}/corpus" "$corpus"
