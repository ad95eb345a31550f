# The two commands of the README are `make demo` and `make test`; the rest are one-liners too.
target := $(or $(CARGO_TARGET_DIR),target)

.PHONY: demo test bench build fmt lint pure it clients conformance setup clean

demo:            ## the whole system on this machine; Ctrl-C stops it
	@tests/setup.sh demo
	@cargo build --quiet --workspace --bins
	@exec $(target)/debug/demo

test: setup      ## everything: Rust, real servers, stock clients
	cargo build --workspace --bins
	tests/run-rust.sh
	tests/clients/run.sh

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

it: setup        ## the whole-system tests
	cargo build --workspace --bins
	cargo test --workspace --test it

clients: setup   ## stock Gradio clients against this system
	cargo build --workspace --bins
	tests/clients/run.sh

conformance: setup
	cargo build --workspace --bins
	tests/clients/conformance.sh

setup:
	@tests/setup.sh

clean:
	rm -rf .demo target
