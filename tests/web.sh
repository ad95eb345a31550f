#!/usr/bin/env bash
# The page's tests: style, types, units; then a real browser against the real fleet. `screenshots` makes pictures instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tests/setup.sh
if [ ! -d web/node_modules ]; then
    echo "web: SKIPPED, node 20.19 or newer with npm is missing" >&2
    exit 0
fi
browser="${CHROMIUM_BIN:-$PWD/.tools/bin/chromium}"
export CHROMIUM_BIN="$browser"
can_browse() {
    [ -x "$browser" ] || { echo "web: browser tests SKIPPED, no chromium" >&2; return 1; }
    [ -x "${NGINX_BIN:-.tools/bin/nginx}" ] || { echo "web: browser tests SKIPPED, no nginx" >&2; return 1; }
}
cd web
if [ "${1:-}" = screenshots ]; then
    (cd .. && can_browse) && npm run --silent screenshots
    exit
fi
npm run --silent lint
npm run --silent check
npm run --silent build
npm run --silent test
if (cd .. && can_browse); then
    npm run --silent e2e
fi
