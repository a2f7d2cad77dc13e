#!/bin/bash
# Prepares a Debian machine to build, test and run AnyServe: system packages by apt, Python packages in
# build/venv. Run it as often as you like: it says nothing when there is nothing to do.
#
#   tools/setup.sh          what `make`, `make run` and `make test` need
#   tools/setup.sh bench    also what only `make bench` needs: gRPC C++, nginx and jansson, which are baselines, and wrk (about
#                           65 MB)
#   tools/setup.sh chaos    also what only `make chaos` needs: HAProxy
#   tools/setup.sh compat   also what only `make compat` needs: proxies, load generators, promtool, npm
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=build/venv
packages=(pkg-config libc6-dev g++ libuv1-dev libnghttp2-dev libssl-dev libwslay-dev zlib1g-dev libsimdjson-dev libxxhash-dev uthash-dev libyaml-dev libdragonbox-dev libsqlite3-dev libprotobuf-c-dev protobuf-compiler protobuf-c-compiler
          libcmocka-dev nghttp2-client gnutls-bin openssl valgrind curl clang-tidy iproute2 systemd)
done_file=build/.setup${1:+-$1}

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

case ${1:-} in
'') ;;
bench) packages+=(libgrpc++-dev libjansson-dev wrk nginx-light) ;;
chaos) packages+=(haproxy) ;;
compat) packages+=(haproxy nginx-light apache2-bin lighttpd squid varnish caddy wrk hey siege apache2-utils httpie wget prometheus libb64-0d) ;;
*) fail "'$1' is not known; usage: tools/setup.sh [bench | chaos | compat]" ;;
esac

command -v gcc >/dev/null || fail "gcc is missing: apt-get install gcc"
command -v node >/dev/null || packages+=(nodejs) # one of the example workers
command -v "$python" >/dev/null || packages+=(python3 python3-venv python3-dev)

[ "${1:-}" != compat ] || command -v npm >/dev/null || packages+=(npm)

# A Python that somebody built brings its own headers and venv; Debian's has them in packages.
if command -v "$python" >/dev/null; then
    "$python" - <<'PY' || fail "$("$python" --version 2>&1) is too old: 3.11 or newer is needed (PYTHON=… names another)"
import sys
sys.exit(sys.version_info < (3, 11))
PY
    headers=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
    [ -e "$headers/Python.h" ] || packages+=(python3-dev)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
fi

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# What a finished setup depends on; the interpreter may be updated by the packages below.
stamp() {
    { cat tools/requirements.txt tools/setup.sh; "$python" -VV; } 2>&1 | sha256sum
}
[ "$(cat "$done_file" 2>/dev/null)" = "$(stamp)" ] && [ -x $venv/bin/meson ] && exit 0

missing=()
if command -v dpkg-query >/dev/null; then
    for p in "${packages[@]}"; do
        is_installed "$p" || missing+=("$p")
    done
else
    echo "setup: this is not Debian; please see to it that these are here: ${packages[*]}" >&2
fi

if [ ${#missing[@]} -gt 0 ]; then
    install="apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" = 0 ]; then
        as_root=()
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        fail "system packages are missing, and this user may not install them. As root:" "  $install"
    fi
    echo "setup: installing ${missing[*]}"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # nginx and haproxy are not to be started as services
    if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" $install -q; } >"$log" 2>&1; then
        tail -20 "$log" >&2
        fail "this failed: $install"
    fi
fi

mkdir -p build
if ! $venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: making $venv"
    rm -rf $venv
    "$python" -m venv $venv
fi
echo "setup: installing Python packages into $venv"
$venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt ||
    fail "pip could not install what tools/requirements.txt lists"
stamp >"$done_file"
