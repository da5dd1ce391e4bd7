#!/usr/bin/env bash
# Runs the tests and prints which part of each file they run, in the processes they start too.
# Arguments go to pytest. Exit code 2 if it is less than pyproject.toml asks for.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
"$venv/bin/coverage" erase
"$venv/bin/coverage" run -m pytest "$@"
"$venv/bin/coverage" combine --quiet
"$venv/bin/coverage" report
