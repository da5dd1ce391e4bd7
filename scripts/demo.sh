#!/usr/bin/env bash
# Sets up parki if needed and runs its demonstration. Arguments go to `parki demo`.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up plot compiler
exec "$venv/bin/parki" demo "$@"
