"""What a choice of parameters costs: predicted seconds per stage from operation counts.

The constants are rough figures of one core and of one H200, good enough to rank choices: a factor
1.5 in one of them moves the cut-off by about 7 %, and the total by a percent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Seconds per unit of work: a pair within r_c, a window point, a value in a transform."""

    pair: float
    pair_degree: float
    spread: float
    gather: float
    transform: float
    workers: int = 1

    def near(self, pairs: float, degree: int) -> float:
        """Return seconds of P2P for pairs within r_c."""
        return pairs * (self.pair + degree * self.pair_degree) / self.workers

    def mesh(self, sources: int, targets: int, points: int) -> float:
        """Return seconds of P2G and G2P."""
        return (sources * self.spread + targets * self.gather) * points**3 / self.workers

    def grid(self, values: float) -> float:
        """Return seconds of FGC for transforms over ``values`` (padded) grid values in all."""
        return values * self.transform / self.workers


CORE = Machine(pair=8e-9, pair_degree=0.8e-9, spread=1.1e-9, gather=0.5e-9, transform=9e-9)
GPU = Machine(pair=1.5e-11, pair_degree=1e-12, spread=1.0e-11, gather=3.5e-12, transform=1.4e-11)


def machine(on_device: bool, single: bool, threads: int) -> Machine:
    """Return the constants for a space and precision."""
    if not on_device:
        base = CORE
        scale = 0.6 if single else 1.0
        workers = threads
    else:
        base, scale, workers = GPU, 0.5 if single else 1.0, 1
    return Machine(
        base.pair * scale,
        base.pair_degree * scale,
        base.spread * scale,
        base.gather * scale,
        base.transform * scale,
        workers,
    )
