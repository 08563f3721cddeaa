#!/usr/bin/env bash
# Runs the demonstration with the binary that `make demo` built. Arguments go on to `frostline demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${CARGO_TARGET_DIR:-target}/demo/frostline" demo "$@"
