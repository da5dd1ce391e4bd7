"""The laws over several ranks: each rank runs them with the faces that ranks have."""

from __future__ import annotations

from pathlib import Path

import pytest
from faces import ON_RANKS
from started import mpirun, parallel

LAWS = Path(__file__).parent
# Laws about which ranks have nothing to say do not start.
MET = (
    "linear transposed promise moves refused_updates several_densities units orders in_precisions "
    "measured_errors operators slopes last_name predicted_memory"
)
pytestmark = pytest.mark.skipif(ON_RANKS, reason="these are the ranks that it starts")


@pytest.mark.parametrize(
    "size",
    [pytest.param(2, marks=parallel), pytest.param(3, marks=[*parallel, pytest.mark.slow])],
)
def test_laws_over_ranks(size):
    files = [str(LAWS / f"test_{name}.py") for name in MET.split()]
    words = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", *files]
    ran = mpirun(
        size,
        *words,
        script=LAWS.parent / "helpers" / "ranks_laws.py",
        seconds=300,
        PARKI_LAWS_ON_RANKS="1",
    )
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-3000:] + ran.stderr[-3000:]
