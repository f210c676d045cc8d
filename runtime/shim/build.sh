#!/bin/sh
# Builds the shim: a static program, so it needs flags of its own, set for this one call. Puts it beside `polder`.
set -eu
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
triple=$(rustc -vV | sed -n 's/^host: //p')
case $triple in
    *-linux-gnu) ;;
    *) echo "the shim is built on Linux with the GNU C library; this host is $triple" >&2; exit 1 ;;
esac

# Where the static libseccomp is: said by the caller, or by the compiler, which knows its own directories.
lib=${LIBSECCOMP_LIB_PATH:-}
if [ -z "$lib" ]; then
    found=$("${CC:-cc}" -print-file-name=libseccomp.a)
    case $found in
        /*) lib=$(dirname "$found") ;;
        *) echo "libseccomp.a is missing: install libseccomp-dev (and libelf-dev, zlib1g-dev)" >&2; exit 1 ;;
    esac
fi

LIBSECCOMP_LINK_TYPE=static LIBSECCOMP_LIB_PATH=$lib \
RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" \
    cargo build ${CARGO_FLAGS:-} -p polder-shim --bin polder-shim --profile shim --target "$triple"

mkdir -p "$target/release"
# Renamed into place: the one there may be in use.
cp "$target/$triple/shim/polder-shim" "$target/release/polder-shim.new"
mv "$target/release/polder-shim.new" "$target/release/polder-shim"
echo "$target/release/polder-shim"
