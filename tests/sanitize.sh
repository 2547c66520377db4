#!/usr/bin/env bash
# compute-sanitizer memcheck, racecheck and synccheck (or TOOLS) over every kernel (or those named, or paths of .cu files),
# both builds, every EVERY-th of its cases (default 3). Needs an NVIDIA GPU. What the driver answers to a question whether
# it has a function is no error.
set -u
cd "$(dirname "$0")/.."
failed=0
for tool in ${TOOLS:-memcheck racecheck synccheck}; do
  echo "== $tool"
  PYTHONPATH=. SANITIZER=$tool compute-sanitizer --tool "$tool" $([ $tool = memcheck ] && echo --report-api-errors no) --error-exitcode 9 \
    "${PYTHON:-python3}" tests/sanitize.py "${EVERY:-3}" "$@" || failed=1
done
exit $failed
