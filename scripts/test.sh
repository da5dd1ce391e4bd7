#!/usr/bin/env bash
# Checks everything, on a fresh machine too: set-up, ruff, mypy, pytest. Arguments go to pytest,
# for example: scripts/test.sh -m "" -k accuracy
# The tests run in two processes, which share the compile cache: one compiles while the other sums.
# A file of tests is run by one of them. -n 4 asks for more, -n 0 for none beside this one.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"
# The tests multiply small matrices: threads of BLAS would mostly wait for each other.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
# Many small kernels on few cores: waiting threads should sleep rather than spin.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
# Some tests start Python anew: it should not compile parki's modules each time.
unset PYTHONDONTWRITEBYTECODE

# Tests of a GPU want it alone: they look at its memory, and record what it launches.
processes=2
[ ! -e /dev/nvidiactl ] && [ ! -e /dev/kfd ] || processes=0

step() {
    say "$*"
    "$venv/bin/$@"
}

step ruff check
step ruff format --check
step mypy
# tests/conftest.py has the order of the files, the longest first.
step pytest -n "$processes" --dist loadfile --no-loadscope-reorder "$@"
