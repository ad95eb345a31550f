# The two commands of the README are `make demo` and `make test`; the rest are one-liners too.
target := $(or $(CARGO_TARGET_DIR),target)

.PHONY: demo test chaos bench build fmt lint pure documents it clients conformance ops mixed rehearse-scaling images compose-test up down setup web screenshots clean

demo:            ## the whole system on this machine; Ctrl-C stops it
	@tests/setup.sh demo
	@cargo build --quiet --workspace --bins
	@exec $(target)/debug/demo

test: setup      ## everything: Rust, real servers, stock clients
	cargo build --workspace --bins
	tests/run-rust.sh
	tests/documents.sh
	tests/clients/run.sh
	tests/ops.sh
	tests/web.sh

chaos:           ## workers struck at every message, then at random; ARGS="--minutes 30 --seed 1"
	@tests/setup.sh
	@cargo build --quiet --workspace --bins
	@$(target)/debug/chaos $(ARGS)

bench:           ## the fleet against the bare model; JSON on standard output
	@tests/setup.sh demo
	@cargo build --quiet --profile perf --workspace --bins
	@$(target)/perf/load

build:
	cargo build --workspace --all-targets

fmt:
	cargo fmt --all

lint:            ## what CI demands of style
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

pure:            ## the cores alone, in milliseconds
	cargo test --quiet -p contract -p gradio -p agent

documents: setup ## real documents against other readers
	cargo build --workspace --bins
	tests/documents.sh

it: setup        ## the whole-system tests
	cargo build --workspace --bins
	cargo test --workspace --test it

clients: setup   ## stock Gradio clients against this system
	cargo build --workspace --bins
	tests/clients/run.sh

ops:             ## chart, alerts, dashboard, compose file, Dockerfile: without a cluster, without containers
	tests/ops.sh

rehearse-scaling: setup  ## KEDA's part played with real workers under a bursty load; ARGS="--seconds 120 --max 6"
	cargo build --workspace --bins
	.tools/py/bin/python -u tests/rehearse_scaling.py $(ARGS)

mixed:           ## this revision beside another one under load; REVISION=tag or commit
	tests/mixed.sh $(REVISION)

images:          ## container images, with docker or podman
	docker/images.sh

compose-test:    ## compose.yaml with real containers, with docker or podman: minutes
	tests/compose.sh

up:              ## compose.yaml with the demo's backend and model; PROFILE= leaves those out
	docker/make_secrets.py
	docker compose $(addprefix --profile ,$(or $(PROFILE),$(if $(filter undefined,$(origin PROFILE)),demo))) up --build --detach --wait
	@echo "http://$(or $(LISTEN),127.0.0.1:8080)"

down:            ## stops it; data stays
	docker compose --profile demo down

web: setup       ## the page: types, style, units, and a real browser against the real fleet
	cargo build --workspace --bins
	tests/web.sh

screenshots: setup  ## the page's main states as pictures, in target/screenshots
	cargo build --workspace --bins
	tests/web.sh screenshots

conformance: setup
	cargo build --workspace --bins
	tests/clients/conformance.sh

setup:
	@tests/setup.sh

clean:
	rm -rf .demo target web/dist web/node_modules
