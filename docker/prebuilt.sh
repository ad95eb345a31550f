#!/usr/bin/env bash
# Static binaries and the page, built on this machine, where the Dockerfile takes them from (BINARIES=prebuilt,
# PAGE=prebuilt-page). STATIC_DIR names a folder that has the binaries already; IMAGE_PROFILE is Cargo's (release).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
profile="${IMAGE_PROFILE:-release}"
from="${STATIC_DIR:-}"
programs=(gateway worker agentctl backend llm)

if [ -z "$from" ]; then
    host="$(rustc -vV | sed -n 's/^host: //p')"
    bins=()
    for program in "${programs[@]}"; do bins+=(--bin "$program"); done
    # A folder of its own: other flags would make Cargo build everything anew each time.
    CARGO_TARGET_DIR=target/static RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile "$profile" --locked \
        --target "$host" --package gateway --package worker --package agentctl --package tests "${bins[@]}"
    from="target/static/$host/$profile"
fi
mkdir -p .images
for program in "${programs[@]}"; do
    install "$from/$program" ".images/$program"
    strip ".images/$program" 2>/dev/null || true
done
for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    if [ -f "$bundle" ]; then
        install -m 0644 "$bundle" .images/ca-certificates.crt
        break
    fi
done
[ -f .images/ca-certificates.crt ] || { echo "prebuilt: no CA certificates on this machine" >&2; exit 1; }
if [ -f web/package.json ] && [ ! -f web/dist/index.html ]; then
    npm --prefix web ci --no-audit --no-fund --silent
    npm --prefix web run --silent build
fi
