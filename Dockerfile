# One build; targets gateway, worker, web, agentctl, and demo (reference backend and scripted model).
#
#   docker build --target gateway --tag agentchat/gateway .
#
# The first three run as any user on a read-only root, with a writable /tmp. `make images` builds all of them.
#
# On a machine without a registry: put static binaries and ca-certificates.crt into .images and the built page into
# web/dist (`make prebuilt` does it), and build with `--build-arg BINARIES=prebuilt --build-arg PAGE=prebuilt-page`.
ARG BINARIES=compiled
ARG PAGE=built-page

FROM rust:1.95.0-slim-bookworm AS compiled
WORKDIR /src
COPY . .
# Static, and without the paths of this container: the same sources give the same bytes.
ENV RUSTUP_TOOLCHAIN=1.95.0 \
    CARGO_INCREMENTAL=0 \
    CARGO_PROFILE_RELEASE_STRIP=symbols \
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=/src=/agentchat --remap-path-prefix=/usr/local/cargo=/cargo"
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
RUN --mount=type=cache,id=agentchat-registry,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=agentchat-target,target=/src/target,sharing=locked \
    host="$(rustc -vV | sed -n 's/^host: //p')"; \
    cargo build --release --locked --target "$host" --package gateway --package worker --package agentctl --package tests \
        --bin gateway --bin worker --bin agentctl --bin backend --bin llm; \
    install -D -t /out "target/$host/release/"{gateway,worker,agentctl,backend,llm} /etc/ssl/certs/ca-certificates.crt

FROM scratch AS prebuilt
COPY .images /out

# hadolint ignore=DL3006
FROM ${BINARIES} AS binaries

FROM node:22-bookworm-slim AS built-page
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
RUN --mount=type=cache,id=agentchat-npm,target=/root/.npm npm ci --no-audit --no-fund
COPY web ./
RUN npm run build

FROM scratch AS prebuilt-page
COPY web/dist /src/web/dist

# hadolint ignore=DL3006
FROM ${PAGE} AS page

FROM scratch AS gateway
COPY --from=binaries /out/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=binaries /out/gateway /gateway
ENV GATEWAY_LISTEN=0.0.0.0:8080
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s CMD ["/gateway", "probe"]
ENTRYPOINT ["/gateway"]

FROM scratch AS worker
COPY --from=binaries /out/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=binaries /out/worker /worker
ENV WORKER_HEALTH_LISTEN=0.0.0.0:8081
USER 65532:65532
EXPOSE 8081
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s CMD ["/worker", "probe"]
ENTRYPOINT ["/worker"]

FROM scratch AS agentctl
COPY --from=binaries /out/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=binaries /out/agentctl /agentctl
USER 65532:65532
ENTRYPOINT ["/agentctl"]

FROM scratch AS demo
COPY --from=binaries /out/backend /out/llm /
ENV BACKEND_LISTEN=0.0.0.0:8000 \
    LLM_LISTEN=0.0.0.0:8001
USER 65532:65532
EXPOSE 8000 8001
CMD ["/backend"]

FROM nginx:1.29-alpine AS web
COPY --from=page /src/web/dist /srv/web
COPY web/nginx.conf /etc/agentchat/nginx.conf
COPY --chmod=0755 docker/web.sh /usr/local/bin/web
ENV GATEWAYS="gateway:8080"
USER 65532:65532
EXPOSE 8080
# nginx finishes what is under way on SIGQUIT and drops it on SIGTERM.
STOPSIGNAL SIGQUIT
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/"]
ENTRYPOINT ["/usr/local/bin/web"]
