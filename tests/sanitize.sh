#!/usr/bin/env bash
# compute-sanitizer memcheck, racecheck and synccheck over every kernel (or those named, or paths of .cu files), both builds, every
# EVERY-th of its cases (default 3). Needs an NVIDIA GPU. torch's own attention, which the check compares with, is left
# out: racecheck reports hazards in its CUTLASS kernel.
set -u
cd "$(dirname "$0")/.."
failed=0
for tool in ${TOOLS:-memcheck racecheck synccheck}; do
  echo "== $tool"
  compute-sanitizer --tool "$tool" --target-processes all --kernel-name-exclude kernel_substring=fmha --error-exitcode 9 \
    "${PYTHON:-python3}" -m kernels check --backend gpu --every "${EVERY:-3}" "$@" || failed=1
done
exit $failed
