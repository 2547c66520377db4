#!/usr/bin/env bash
# compute-sanitizer memcheck and racecheck over every kernel, both builds, a part of the grid. Needs an NVIDIA GPU.
set -u
cd "$(dirname "$0")/.."
failed=0
for tool in memcheck racecheck; do
  echo "== $tool"
  compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "${PYTHON:-python3}" -m kernels check --backend gpu --every "${EVERY:-6}" || failed=1
done
exit $failed
