#!/bin/sh
# Builds the demo workload: a static program, so that an image can hold it and nothing else. The flags are for this
# one call, because together with procedural macros they only work when a target is given.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
triple=$(rustc -vV | sed -n 's/^host: //p')

RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" \
    cargo build ${CARGO_FLAGS:-} -p polder-demo --bin polder-demo --profile shim --target "$triple"

mkdir -p "$target/release"
# Renamed into place: the one there may be running.
cp "$target/$triple/shim/polder-demo" "$target/release/polder-demo.new"
mv "$target/release/polder-demo.new" "$target/release/polder-demo"
echo "$target/release/polder-demo"
