#!/usr/bin/env bash
# Runs every fuzz target for so many seconds, one after another: `fuzz.sh [SECONDS] [TARGET...]`.
# Stops at the first finding, whose input is then in fuzz/artifacts. See docs/fuzzing.md.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
if [ $# -eq 0 ]; then
  mapfile -t targets < <(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
else
  targets=("$@")
fi

# Our crates are instrumented; those they stand on are the ones that tests are built with.
export RUSTC_WORKSPACE_WRAPPER="$PWD/fuzz/instrument.sh" CARGO_INCREMENTAL=0
cargo build -p frostline-fuzz "${targets[@]/#/--bin=}"
for target in "${targets[@]}"; do
  echo "== $target"
  mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
  # Packed input may ask for a window of 2 GiB, which is documented and allowed.
  "${CARGO_TARGET_DIR:-target}/debug/$target" "fuzz/corpus/$target" "fuzz/seeds/$target" \
    -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$seconds" -max_len=20000 -timeout=20 \
    -rss_limit_mb=2560 -print_final_stats=1
done
