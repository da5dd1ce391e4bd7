"""Ceilings of the machine: bytes, multiply-adds and inverse roots per second.

They are the best of a few runs of kernels (``peak.py``) that parki's runtime compiles, measured in
the same run as the times compared with them. On a host the matrix product of BLAS replaces the
multiply-adds if it is faster.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from parki.interchange import real_name
from parki.runtime import load

from .run import Run

FILE = str(Path(__file__).with_name("peak.py"))
# Time per byte from the L2 cache, and from L1 or scratch memory, relative to memory: the paper's
# figures for the H200, section 5.1.
L2, L1 = 1 / 4, 1 / 10


@dataclass(frozen=True)
class Ceilings:
    """Ceilings per second: bytes of a triad, operations, and inverse roots.

    Attributes
    ----------
    flops : float
        Operations per second; a multiply-add is two.
    roots : float
    """

    bandwidth: float
    flops: float
    roots: float

    @property
    def root(self) -> float:
        """Number of operations that take the time of an inverse root."""
        return self.flops / self.roots

    def best(self, other: Ceilings) -> Ceilings:
        """Return the larger ones of two measurements."""
        return Ceilings(*(max(pair) for pair in zip(astuple(self), astuple(other), strict=True)))


def ceilings(run: Run, dtype: str = "f8") -> Ceilings:
    """Measure the ceilings of a space and precision."""
    xp, device = run.xp, run.device
    # A device keeps tens of thousands of threads in flight, a host thread a few vectors.
    wide, rounds = (8, 2000) if device else (128, 200)
    items, cells = (1 << 19, 1 << 27) if device else (1 << 13, 1 << 24)
    if run.quick:
        items, cells = 1 << 6, 1 << 12
    out = xp.zeros(max(items, cells), dtype=dtype)
    b, c = xp.ones(cells, dtype=dtype), xp.ones(cells, dtype=dtype)

    def best(workunit: str, count: int, **arguments: object) -> float:
        constants: dict[str, object] = {"REAL": real_name(np.dtype(dtype))}
        if workunit != "triad":
            constants.update(WIDE=wide, ROUNDS=rounds)
        kernel = load(FILE, workunit, run.space, **constants)
        return min(run.repeat(lambda: kernel(count, out=out, **arguments)))

    work = items * wide * rounds
    flops = 2 * work / best("multiply_add", items, x=0.999, y=0.5)
    if not device:
        size = 64 if run.quick else 1500
        matrix = b[: size**2].reshape(size, size)
        flops = max(flops, 2 * size**3 / min(run.repeat(lambda: matrix @ matrix)))
    return Ceilings(
        bandwidth=3 * cells * out.itemsize / best("triad", cells, b=b, c=c, x=0.5),
        flops=flops,
        roots=work / best("inverse_root", items, x=1.0, y=0.5),
    )
