#!/usr/bin/env bash
# Builds the pages of docs as a site; warnings are errors. Arguments go to Sphinx.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up docs
cd "$root"
"$venv/bin/python" -m sphinx -W --keep-going "$@" docs docs/_build/html
say "open docs/_build/html/index.html"
