# `make demo` shows Polder at work; `make test` runs every test. `make help` lists the rest.
# CARGO_TARGET_DIR says where things are built (default: target); the programs are in its release folder.
# CARGO_FLAGS goes to every `cargo build`, POLDER_NO_DEPS=1 leaves the system's packages alone.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help deps shim workload build demo test bench fmt lint docs clean

CARGO ?= cargo

help: ## lists what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

deps: ## installs the Debian packages that are missing
	@if [ "$${POLDER_NO_DEPS:-}" != 1 ]; then .ci/deps; fi

shim: deps
	@runtime/shim/build.sh

workload: deps
	@demo/build.sh

build: deps shim workload ## builds `polder`, its shim and the demo workload
	@$(CARGO) build --release $(CARGO_FLAGS) -p polder-cli

demo: build ## two regions, six hosts, real containers; DEMO_EXIT=1 ends by itself
	@exec deploy/demo.sh

test: deps shim workload ## runs all tests and says what was skipped
	@.ci/test

bench: deps ## prints the figures of the benchmarks
	@$(CARGO) run --release -q -p polder-shell --example port_throughput
	@$(CARGO) run --release -q -p polder-shell --example port_throughput 4

fmt: ## formats
	@$(CARGO) fmt --all

lint: deps ## formatting, layers, file sizes, clippy
	@$(CARGO) fmt --all --check
	@$(CARGO) xtask check
	@$(CARGO) clippy --release --workspace --all-targets -- -D warnings

docs: deps ## builds the API documentation, warnings denied
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps

clean: ## removes what was built
	@$(CARGO) clean
