"""What a choice of parameters costs: predicted seconds per stage from operation counts.

The constants are rough figures of one core (AVX-512 server) and of one H200, good enough to rank
choices: a factor 1.5 in one of them moves the cut-off by about 7 %, and the total by a percent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Machine:
    """Seconds per unit of work.

    Attributes
    ----------
    target : float
        P2P, per target: what does not grow with the number of pairs.
    pair, pair_degree : float
        P2P, per pair within r_c; more for each degree of the polynomials.
    spread, gather : float
        P2G and G2P, per point of a source's or target's window.
    flush : float
        P2G by tiles, per value of a tile's scratch memory added to the grid; 0 where none is.
    transform : float
        FGC, per value in a transform.
    workers : int
        Cores that share the work.
    """

    target: float
    pair: float
    pair_degree: float
    spread: float
    gather: float
    flush: float
    transform: float
    workers: int = 1

    def near(self, targets: int, pairs: float, degree: int) -> float:
        """Return seconds of P2P, for pairs within r_c."""
        per_pair = self.pair + degree * self.pair_degree
        return (targets * self.target + pairs * per_pair) / self.workers

    def mesh(self, sources: int, targets: int, points: int, grid: float) -> float:
        """Return seconds of P2G and G2P; ``grid`` counts the values of all components."""
        halo = ((8 + points - 1) / 8) ** 3
        window = (sources * self.spread + targets * self.gather) * points**3
        return (window + grid * halo * self.flush) / self.workers

    def convolution(self, values: float) -> float:
        """Return seconds of FGC for transforms over ``values`` (padded) grid values in all."""
        return values * self.transform / self.workers


CORE = Machine(2e-7, 9e-9, 0.3e-9, 1.9e-9, 0.65e-9, 0.0, 9e-9)
GPU = Machine(3.6e-9, 1.0e-11, 5e-13, 8e-12, 4.3e-12, 7.5e-12, 1.8e-11)


def machine(on_device: bool, single: bool, threads: int) -> Machine:
    """Return the constants for a space and precision; single takes 0.6 of the time."""
    base = GPU if on_device else replace(CORE, workers=threads)
    if not single:
        return base
    scaled = {n: 0.6 * getattr(base, n) for n in base.__dataclass_fields__ if n != "workers"}
    return replace(base, **scaled)
