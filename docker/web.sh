#!/bin/sh
# Fills in nginx.conf and becomes nginx. Looks the gateways up again every few seconds, and has nginx read its
# configuration anew when their addresses have changed: nginx itself looks once.
#   GATEWAYS   host:port of the gateways, separated by blanks
#   LISTEN     0.0.0.0:8080
#   NGINX_RUN  /tmp/nginx, where all it writes goes
set -eu

run="${NGINX_RUN:-/tmp/nginx}"
template="${NGINX_TEMPLATE:-/etc/agentchat/nginx.conf}"
mkdir -p "$run"

for gateway in ${GATEWAYS:?host:port of the gateways, separated by blanks}; do
    case "$gateway" in
        *[!A-Za-z0-9.:_-]* | *:*:* | :* | *:) echo "web: $gateway is not host:port" >&2; exit 64 ;;
        *:*) ;;
        *) echo "web: $gateway is not host:port" >&2; exit 64 ;;
    esac
done

# One line for each gateway that has an address.
servers() {
    for gateway in $GATEWAYS; do
        address="$(getent hosts "${gateway%:*}" | awk 'NR == 1 { print $1 }')"
        case "$address" in
            "") ;;
            *:*) printf 'server [%s]:%s max_fails=0; ' "$address" "${gateway##*:}" ;;
            *) printf 'server %s:%s max_fails=0; ' "$address" "${gateway##*:}" ;;
        esac
    done
}

fill_in() {
    sed -e "s|\${NGINX_LISTEN}|${LISTEN:-0.0.0.0:8080}|" \
        -e "s|\${NGINX_RUN}|$run|" \
        -e "s|\${WEB_ROOT}|/srv/web|" \
        -e "s|\${GATEWAY_SERVERS}|$1|" \
        "$template" >"$run/nginx.conf.new"
    mv "$run/nginx.conf.new" "$run/nginx.conf"
}

follow() {
    before="$1"
    while sleep 2; do
        now="$(servers)"
        if [ -n "$now" ] && [ "$now" != "$before" ]; then
            fill_in "$now"
            nginx -e stderr -p "$run" -c "$run/nginx.conf" -s reload
            before="$now"
        fi
    done
}

found="$(servers)"
[ -n "$found" ] || { echo "web: none of $GATEWAYS has an address" >&2; exit 1; }
fill_in "$found"
follow "$found" &
exec nginx -e stderr -p "$run" -c "$run/nginx.conf"
