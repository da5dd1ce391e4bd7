#!/usr/bin/env bash
# Runs the tests and prints the coverage of each file, including processes that the tests start.
# Arguments go to pytest. The exit code is 2 if coverage is less than pyproject.toml requires.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
"$venv/bin/coverage" erase
"$venv/bin/coverage" run -m pytest "$@"
"$venv/bin/coverage" combine --quiet
"$venv/bin/coverage" report
