#!/usr/bin/env bash
# Builds dist/: the sdist, and the wheel with compiled kernels for Linux on x86-64. Then installs
# each into an empty environment, and runs `parki check` and the README's first example there; the
# wheel is tested without a compiler. The first run compiles all kernels for three levels of x86-64,
# which takes one core half an hour for each level; later runs only compile changed kernels.
# `scripts/compile_kernels.py --list` counts the kernels.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up dev
cd "$root"

[ "$(uname -sm)" = "Linux x86_64" ] || stop "only Linux on x86-64 has a wheel with kernels."
say "compiling the kernels into build/compiled"
"$venv/bin/python" scripts/compile_kernels.py build/compiled
say "building the sdist and the wheel in dist"
rm -rf dist
PARKI_WHEEL_KERNELS="$root/build/compiled" "$venv/bin/python" -m build --outdir dist

trial="$(mktemp -d)"
trap 'rm -rf "$trial"' EXIT
sed -n '/^```python$/,/^```$/{/^```/d;p}' README.md > "$trial/first_example.py"

try() { # try NAME PATH FILE: install FILE into an empty environment, check it with this PATH
    say "$1: installing it into an empty environment"
    "$venv/bin/python" -m venv "$trial/$1"
    "$trial/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$3[cli]"
    local here=(env -i HOME="$trial/$1" PATH="$2")
    "${here[@]}" "$trial/$1/bin/parki" info | sed -n '/^compiler\|^kernels/p'
    say "$1: parki check"
    "${here[@]}" "$trial/$1/bin/parki" check
    say "$1: the README's first example"
    "${here[@]}" "$trial/$1/bin/python" "$trial/first_example.py"
}

try wheel /nonexistent dist/*.whl
try sdist "$PATH" dist/*.tar.gz
ls -l dist
