#!/usr/bin/env bash
# compose.yaml with real containers: a stock client chats through nginx, a worker is killed, everything is restarted.
# With a docker that runs, or with podman as root; takes minutes, so `make test` leaves it out.
#
# podman needs no registry: images that can't be pulled are made from Debian packages (docker/stand-ins.sh). It gets
# storage, settings and network of its own, below .tools/containers; KEEP=1 leaves them for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tests/setup.sh
python=.tools/py-gradio-2.7.2/bin/python
export COMPOSE_PROJECT_NAME=agentchat-test TAG="${TAG:-latest}" LISTEN="${LISTEN:-127.0.0.1:18080}"
docker/make_secrets.py

if command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
    CONTAINER_ENGINE=docker docker/images.sh
    exec "$python" -u tests/compose/containers.py docker
fi
for program in podman runc netavark; do
    if ! command -v "$program" >/dev/null 2>&1 && [ ! -x "/usr/lib/podman/$program" ]; then
        echo "compose-test: no $program (Debian: apt-get install podman buildah runc netavark aardvark-dns iptables debootstrap)" >&2
        exit 1
    fi
done
[ "$(id -u)" = 0 ] || { echo "compose-test: podman needs root here" >&2; exit 1; }

if [ ! -x .tools/podman-compose/bin/podman-compose ]; then
    python3 -m venv .tools/podman-compose
    .tools/podman-compose/bin/pip install --quiet --disable-pip-version-check podman-compose==1.6.0
fi
home="$PWD/.tools/containers"
mkdir -p "$home"
cat >"$home/containers.conf" <<CONF
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
CONF
cat >"$home/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$home/graph"
runroot = "$home/run"
CONF
export CONTAINERS_CONF="$home/containers.conf" CONTAINERS_STORAGE_CONF="$home/storage.conf" CONTAINER_ENGINE=podman
PATH="$PWD/.tools/podman-compose/bin:$PATH"

docker/images.sh
for what in nats postgres; do
    image="$(sed -n "s/^    image: \($what:[^ ]*\)$/\1/p" compose.yaml)"
    podman image exists "$image" || timeout 60 podman pull --quiet "$image" >/dev/null 2>&1 || docker/stand-ins.sh "$what" "$image"
done
code=0
# A network namespace and mounts of its own: nothing of this machine's network is touched.
unshare --net --mount sh -c 'ip link set lo up && exec "$@"' sh "$python" -u tests/compose/containers.py podman || code=$?
if [ -z "${KEEP:-}" ]; then
    podman system reset --force >/dev/null 2>&1 || true
    rm -rf "$home"
fi
exit "$code"
