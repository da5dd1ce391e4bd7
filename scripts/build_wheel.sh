#!/usr/bin/env bash
# Builds dist/: the sdist, and the wheel with compiled kernels for Linux on x86-64. Then installs
# each into an empty environment and runs `parki check` there, the wheel's with no compiler at hand.
# The first run compiles some 1700 kernels for each of three levels of x86-64 (15 minutes of a core
# each), later ones what has changed.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"

[ "$(uname -sm)" = "Linux x86_64" ] || stop "only Linux on x86-64 has a wheel with kernels."
"$venv/bin/python" scripts/compile_kernels.py build/compiled
rm -rf dist
PARKI_WHEEL_KERNELS="$root/build/compiled" "$venv/bin/python" -m build --outdir dist

trial="$(mktemp -d)"
trap 'rm -rf "$trial"' EXIT

try() { # try NAME PATH FILE: install FILE into an empty environment, check it with this PATH
    say "$1: parki check"
    "$venv/bin/python" -m venv "$trial/$1"
    "$trial/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$3"
    env -i HOME="$trial/$1" PATH="$2" "$trial/$1/bin/parki" info | sed -n '/^compiler\|^kernels/p'
    env -i HOME="$trial/$1" PATH="$2" "$trial/$1/bin/parki" check
}

try wheel /nonexistent dist/*.whl
try sdist "$PATH" dist/*.tar.gz
ls -l dist
