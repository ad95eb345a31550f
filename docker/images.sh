#!/usr/bin/env bash
# Builds every image, with docker or podman (CONTAINER_ENGINE chooses). TAG is latest.
#
# Where the base images can't be had (no registry), programs and page are built on this machine, and a stand-in
# for the base image of `web` is made from Debian packages (docker/stand-ins.sh). PREBUILT=1 asks for it.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."
tag="${TAG:-latest}"

engine="${CONTAINER_ENGINE:-}"
if [ -z "$engine" ]; then
    if command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
        engine=docker
    elif command -v podman >/dev/null 2>&1; then
        engine=podman
    else
        echo "images: neither a docker that runs nor podman (Debian: apt-get install podman buildah)" >&2
        exit 1
    fi
fi

has_base() { "$engine" image inspect "$1" >/dev/null 2>&1 || timeout 60 "$engine" pull --quiet "$1" >/dev/null 2>&1; }

options=()
# The same programs give the same layers: files bear the time of the commit.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
# podman's other format has no health checks.
[ "$engine" != podman ] || options+=(--format docker --timestamp "$SOURCE_DATE_EPOCH")
if [ -n "${PREBUILT:-}" ] || ! has_base "$(sed -n 's/^FROM \(rust:[^ ]*\) .*/\1/p' Dockerfile)"; then
    echo "images: from programs that are built here" >&2
    docker/prebuilt.sh
    options+=(--build-arg BINARIES=prebuilt --build-arg PAGE=prebuilt-page)
    base="$(sed -n 's/^FROM \(nginx:[^ ]*\) .*/\1/p' Dockerfile)"
    has_base "$base" || CONTAINER_ENGINE="$engine" docker/stand-ins.sh nginx "$base"
fi
for target in gateway worker agentctl demo web; do
    echo "images: agentchat/$target:$tag" >&2
    "$engine" build --quiet "${options[@]}" --target "$target" --tag "agentchat/$target:$tag" . >/dev/null
done
