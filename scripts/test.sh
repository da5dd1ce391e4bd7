#!/usr/bin/env bash
# Checks everything, on a fresh machine too: set-up, ruff, mypy, pytest. Arguments go to pytest,
# for example: scripts/test.sh -m "" -k accuracy
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"
# The tests multiply small matrices: threads of BLAS would mostly wait for each other.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
# Many small kernels on few cores: waiting threads should sleep rather than spin.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

step() {
    say "$*"
    "$venv/bin/$@"
}

step ruff check
step ruff format --check
step mypy
step pytest "$@"
