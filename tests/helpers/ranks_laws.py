"""Run the laws on this rank: pytest, of which the first rank alone speaks.

PARKI_LAWS_ON_RANKS=1 mpirun -n 3 python tests/helpers/ranks_laws.py -q tests/laws/test_linear.py
"""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

if __name__ == "__main__":
    from mpi4py import MPI

    silent = io.StringIO() if MPI.COMM_WORLD.rank else sys.stdout
    with contextlib.redirect_stdout(silent):
        status = pytest.main(sys.argv[1:])
    if status:  # ranks that others wait for
        sys.stderr.write("" if silent is sys.stdout else silent.getvalue()[-3000:])
        sys.stdout.flush()
        MPI.COMM_WORLD.Abort(int(status))
