#!/usr/bin/env bash
# Compiles a crate of ours for libFuzzer: `RUSTC_WORKSPACE_WRAPPER` of scripts/fuzz.sh. The flags are those of cargo-fuzz.
exec "$@" -Copt-level=1 -Ccodegen-units=1 --cfg fuzzing -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
