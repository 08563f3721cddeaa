#!/usr/bin/env bash
# Runs every fuzz target for so many seconds, one after another: `fuzz.sh [SECONDS] [TARGET...]`.
# Stops at the first finding, whose input is then in fuzz/artifacts. See docs/fuzzing.md.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "fuzzing needs a nightly toolchain and cargo-fuzz: rustup toolchain install nightly && cargo install cargo-fuzz" >&2
  exit 1
fi
if [ $# -eq 0 ]; then
  mapfile -t targets < <(cargo +nightly fuzz list)
else
  targets=("$@")
fi

for target in "${targets[@]}"; do
  features=()
  # Only the catalog's targets link the Delta kernel, and only the lab's a FUSE library.
  case $target in
    catalog_*) features=(--features catalog) ;;
    topology) features=(--features lab) ;;
  esac
  echo "== $target"
  mkdir -p "fuzz/corpus/$target"
  # Packed input may ask for a window of 2 GiB, which is documented and allowed.
  cargo +nightly fuzz run "${features[@]}" "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -max_len=20000 -timeout=20 -rss_limit_mb=2560 -print_final_stats=1
done
