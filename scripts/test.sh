#!/usr/bin/env bash
# Everything: format, lints, licences, unit and property tests, the store conformance suite against a real
# S3-compatible server, and black-box tests with DuckDB, Polars and deltalake over the built binary.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/frostline"

step() { printf '\n== %s\n' "$*"; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings

step "dependencies"
cargo deny --log-level error check bans licenses sources
# The advisory database is fetched; without a network the rest has still been checked.
if cargo deny fetch db >/dev/null 2>&1; then
  cargo deny --log-level error check advisories
else
  echo "advisories: SKIPPED, the advisory database cannot be fetched here"
fi

step "a real S3-compatible server, and Azurite"
servers=$(mktemp -d)
stop_servers() {
  tests/s3_server.sh stop "$servers" >/dev/null 2>&1 || true
  tests/azure_server.sh stop "$servers" >/dev/null 2>&1 || true
  rm -rf "$servers"
}
trap stop_servers EXIT
PATH="$cache/venv/bin:$PATH"
eval "$(tests/s3_server.sh start "$servers")"
eval "$(tests/azure_server.sh start "$servers")"

step "unit, property and conformance tests"
cargo test --workspace --quiet

step "black-box tests"
FROSTLINE_BIN="${CARGO_TARGET_DIR:-target}/debug/frostline" python -m pytest -q tests/clients tests/rest

step "the server with Elasticsearch's client of version 8"
PYTHONPATH="$cache/elasticsearch-8" FROSTLINE_BIN="${CARGO_TARGET_DIR:-target}/debug/frostline" python -m pytest -q tests/clients/test_server.py tests/clients/test_helpers.py tests/clients/test_indices.py tests/clients/test_snapshots.py
