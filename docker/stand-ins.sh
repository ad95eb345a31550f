#!/usr/bin/env bash
# Makes images that stand in for those of a registry, from Debian packages: stand-ins.sh WHAT NAME...
#   nginx NAME      nginx and wget
#   nats NAME       the nats-server of .tools (tests/setup.sh)
#   postgres NAME   Debian's PostgreSQL, started as the official image's start-up script does
# Needs root, debootstrap and podman or docker (CONTAINER_ENGINE). For tests: nothing here is meant for production.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
engine="${CONTAINER_ENGINE:-podman}"
root=.tools/debian

debian() {
    [ -f "$root/etc/debian_version" ] && return 0
    command -v debootstrap >/dev/null 2>&1 || { echo "stand-ins: needs debootstrap (Debian: apt-get install debootstrap)" >&2; exit 1; }
    echo "stand-ins: a small Debian (debootstrap)" >&2
    mkdir -p .tools
    rm -rf "$root"
    debootstrap --variant=minbase --include=wget,nginx-light,postgresql,gosu bookworm "$root" >.tools/debootstrap.log 2>&1 ||
        { tail -n 5 .tools/debootstrap.log >&2; exit 1; }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
}

imported() {
    local name="$1"
    shift
    tar -C "$root" -c . | "$engine" import "$@" - "$name" >/dev/null
}

what="$1"
shift
debian
for name in "$@"; do
    echo "stand-ins: $name" >&2
    case "$what" in
        nginx) imported "$name" ;;
        nats)
            install .tools/bin/nats-server "$root/usr/local/bin/nats-server"
            imported "$name" --change 'ENTRYPOINT ["/usr/local/bin/nats-server"]'
            ;;
        postgres)
            cat >"$root/usr/local/bin/start-postgres" <<'SCRIPT'
#!/bin/sh
set -eu
bin="$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres)")"
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 0700 "$data"
    gosu postgres "$bin/initdb" -D "$data" -U "$POSTGRES_USER" -A scram-sha-256 --pwfile="$POSTGRES_PASSWORD_FILE" -E UTF8 --locale=C >/dev/null
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    printf "CREATE DATABASE %s;\n" "$POSTGRES_DB" | gosu postgres "$bin/postgres" --single -D "$data" postgres >/dev/null
fi
install -d -o postgres /var/run/postgresql
exec gosu postgres "$bin/postgres" -D "$data" -c listen_addresses='*' -c max_connections=200
SCRIPT
            chmod +x "$root/usr/local/bin/start-postgres"
            ln -sf "../../lib/postgresql/$(ls "$root/usr/lib/postgresql")/bin/pg_isready" "$root/usr/bin/pg_isready"
            imported "$name" --change 'ENTRYPOINT ["/usr/local/bin/start-postgres"]'
            ;;
        *) echo "stand-ins: what is $what?" >&2; exit 1 ;;
    esac
done
