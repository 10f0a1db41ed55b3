# Sourced by the other scripts of this folder: what the machine needs, and the virtual environment.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${JOURNALFS_VENV:-$ROOT/.venv}"
MISSING=()

# Compiled Python is kept, whatever the environment wants: a test run starts thousands of processes.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$ROOT/build/pycache"

say() { printf '\n== %s\n' "$*"; }

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# want COMMAND PACKAGE: the package is missing when the command is.
want() { have "$1" || MISSING+=("$2"); }

# Python with its headers and venv; 3.11 or newer, else the one that Debian brings.
choose_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 /usr/bin/python3; do
        [ -n "$candidate" ] && have "$candidate" || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            PYTHON="$candidate"
            return
        fi
    done
    PYTHON=/usr/bin/python3
    MISSING+=(python3)
}

want_python() {
    choose_python
    have "$PYTHON" || { MISSING+=(python3-venv python3-dev); return; }
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || MISSING+=(python3-venv)
    "$PYTHON" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || MISSING+=(python3-dev)
}

want_to_build() {
    want_python
    want gcc gcc
    want pkg-config pkg-config
    [ -e /usr/include/stdlib.h ] || MISSING+=(libc6-dev)
    [ -e /usr/include/zlib.h ] || MISSING+=(zlib1g-dev)
    want fusermount3 fuse3
    # Without pkg-config nothing can be asked; then the header's package is wanted as well.
    pkg-config --exists fuse3 2>/dev/null || MISSING+=(libfuse3-dev)
}

want_java() {
    want java default-jre-headless
}

want_java_to_build() {
    want javac default-jdk-headless
    want mvn maven
}

# A broker with the journal type ASYNCIO needs libaio; without it it falls back to NIO by itself.
want_libaio() {
    # Debian 13 calls it libaio1t64, and takes the old name too.
    ldconfig -p 2>/dev/null | grep -q 'libaio\.so\.1' || MISSING+=(libaio1)
}

# Install what is missing, and only that.
install_missing() {
    [ "${#MISSING[@]}" -gt 0 ] || return 0
    local as_root=()
    have apt-get || fail "missing: ${MISSING[*]} (Debian's names); install them and start again"
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || fail "missing packages: ${MISSING[*]}; as root: apt-get install ${MISSING[*]}"
        as_root=(sudo -n)
    fi
    say "Installing ${MISSING[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${MISSING[@]}" ca-certificates
    MISSING=()
}

# What scripts/locks were made with: pip-compile --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url
# --no-header --no-annotate with --extra for each extra, of pyproject.toml and of what builds the core.
LOCKED_PYTHON=3.11

# make_venv EXTRAS: the environment with journalfs in it, editable. Does the slow part only when it would change.
make_venv() {
    local extras="$1" stamp lock sources installed_sources="" installed_extras="" extra
    stamp="$VENV/.journalfs-installed"
    [ -x "$VENV/bin/python" ] || { say "Making $VENV"; "$PYTHON" -m venv "$VENV"; }
    lock="$ROOT/scripts/locks/${extras//,/-}.txt"
    sources="$(cat "$ROOT/pyproject.toml" "$ROOT/native/build_backend.py" "$ROOT"/scripts/locks/*.txt | sha256sum | cut -d ' ' -f 1)"
    [ ! -e "$stamp" ] || read -r installed_sources installed_extras <"$stamp"
    if [ "$sources" = "$installed_sources" ]; then
        # What is there already stays: the demo needs less than the tests, and would take it away.
        for extra in ${extras//,/ }; do
            case ",$installed_extras," in *",$extra,"*) ;; *) installed_sources="" ;; esac
        done
    fi
    if [ "$sources" != "$installed_sources" ]; then
        say "Installing journalfs[$extras] into $VENV"
        # Pinned by hash, from whatever index the machine's pip is configured for; with it what build_core needs.
        if [ "$("$VENV/bin/python" -c 'import sys; print(*sys.version_info[:2], sep=".")')" = "$LOCKED_PYTHON" ]; then
            "$VENV/bin/python" -m pip install -q --require-hashes -r "$lock"
            (cd "$ROOT" && "$VENV/bin/python" -m pip install -q --no-deps --no-build-isolation -e .)
        else
            say "The pins are for Python $LOCKED_PYTHON: what is newest is installed, unpinned"
            "$VENV/bin/python" -m pip install -q 'setuptools>=77' 'cffi>=1.17' wheel
            (cd "$ROOT" && "$VENV/bin/python" -m pip install -q -e ".[$extras]")
        fi
        printf '%s %s\n' "$sources" "$extras" >"$stamp"
    fi
}

# The C core, from the sources as they are now.
build_core() {
    local core="$ROOT/journalfs/engine/_native.abi3.so"
    if [ ! -e "$core" ] || [ -n "$(find "$ROOT/native" -name '*.[ch]' -newer "$core" -print -quit)" ]; then
        say "Building the C core"
        (cd "$ROOT" && "$VENV/bin/python" native/build_engine.py >/dev/null)
    fi
}

need_fuse_device() {
    [ -e /dev/fuse ] || fail "no /dev/fuse: load the kernel module (modprobe fuse), or give the container the device"
}
