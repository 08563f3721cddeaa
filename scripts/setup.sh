#!/usr/bin/env bash
# Makes a fresh machine ready: `setup.sh build` for the demo, `setup.sh test` for everything.
# Installs what it may (Rust components, a Python environment and Node.js packages under the cache folder) and
# says exactly what to install for the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?build or test}
cache="${XDG_CACHE_HOME:-$HOME/.cache}/frostline"
mkdir -p "$cache"

# A new machine may be installing its updates: wait for them.
debian() { apt-get -o DPkg::Lock::Timeout=300 "$@"; }

missing=()
need() { # need COMMAND DEBIAN_PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}
need cc build-essential
need make make
need git git
if [ "$what" = test ]; then
  need c++ build-essential
  need python3 python3
  need xz xz-utils
  need bzip2 bzip2
fi
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    debian update -qq && debian install -y -qq "${missing[@]}" >/dev/null
  else
    echo "frostline needs: ${missing[*]}. On Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
if ! command -v cargo >/dev/null 2>&1; then
  echo "frostline needs Rust $(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml): install rustup (https://rustup.rs), then run this again" >&2
  exit 1
fi
cargo --version >/dev/null # lets rustup install the pinned toolchain

[ "$what" = test ] || exit 0

# What the lab's tests on real devices, the tests of shippers and those of pages use. Without these the tests say that they are skipped.
useful=()
for tool in fio:fio mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs lstopo:hwloc-nox chromium:chromium; do
  command -v "${tool%%:*}" >/dev/null 2>&1 || useful+=("${tool##*:}")
done
compgen -G '/usr/share/fonts/*/noto/NotoSansCJK*' >/dev/null || useful+=(fonts-noto-cjk)
PATH="$PATH:/usr/sbin" command -v rsyslogd >/dev/null 2>&1 || useful+=(rsyslog)
compgen -G '/usr/lib*/rsyslog/omelasticsearch.so' >/dev/null || compgen -G '/usr/lib/*/rsyslog/omelasticsearch.so' >/dev/null || useful+=(rsyslog-elasticsearch)
if [ ${#useful[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && debian update -qq &&
    debian install -y -qq --no-install-recommends "${useful[@]}" >/dev/null; then
    echo "installed for the tests: ${useful[*]}"
  else
    echo "not here, so some tests are skipped: ${useful[*]}. On Debian or Ubuntu: sudo apt-get install ${useful[*]}" >&2
  fi
fi

python="$cache/venv"
wanted=$(cat tests/requirements.txt)
if [ "$(cat "$python/installed" 2>/dev/null)" != "$wanted" ]; then
  python3 -m venv "$python" 2>/dev/null || {
    echo "frostline's tests need Python's venv module: sudo apt-get install python3-venv" >&2
    exit 1
  }
  "$python/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
  # Two versions of one package: the older one beside the environment.
  rm -rf "$cache/elasticsearch-8"
  "$python/bin/pip" install --quiet --disable-pip-version-check --no-warn-conflicts --target "$cache/elasticsearch-8" elasticsearch==8.19.3
  printf '%s' "$wanted" >"$python/installed"
fi

# Clients for Node.js, exactly those of the lock file.
node="$cache/node"
node_version=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/' || true)
if ! command -v npm >/dev/null 2>&1 || [ "${node_version:-0}" -lt 20 ]; then
  echo "not here, so the tests of clients for Node.js are skipped: Node.js 20 or later, with npm (https://nodejs.org)" >&2
elif ! cmp -s tests/clients/node/package-lock.json "$node/installed"; then
  rm -rf "$node"
  mkdir -p "$node"
  cp tests/clients/node/package.json tests/clients/node/package-lock.json "$node"
  (cd "$node" && npm ci --silent --no-audit --no-fund)
  cp "$node/package-lock.json" "$node/installed"
fi

command -v cargo-deny >/dev/null 2>&1 || cargo install --quiet --locked --debug cargo-deny --version '^0.20'
