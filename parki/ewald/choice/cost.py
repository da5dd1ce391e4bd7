"""Seconds of each stage and variant, linear in counts of the work: `parki.ewald.choice.times`.

Each variant has a few counts (`COUNTS`), in the spirit of the paper's Section 5: what it computes
and what it moves. A machine has seconds for each count: built in for one core of an AVX-512 server
and for an H200, perhaps times factors that `parki tune` measured (`parki.ewald.choice.machines`). A
factor of 1.5 in one of them moves the cut-off by about 7 %, and the total by about a percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parki.ewald.far.padding import EQUAL_LENGTHS, TransformLengths

# Variants of P2P, P2G and G2P that are best nearly everywhere, by whether they run on a device.
USUAL = {False: ("staged", "owner", "target"), True: ("tile", "tile", "tile")}
# The counts that each variant's time is linear in, after a constant for its launches. Variants of
# the literature have none: parameters are chosen for them as for the usual variants.
COUNTS = {
    # The chain is the operations of one target: its time remains however few tiles there are.
    "p2p_tile": ("targets", "pairs", "operations", "chain"),
    # This is for repeated sums, which reuse kept lists.
    "kept_tile": ("targets", "pairs", "operations", "chain"),
    "p2p_staged": ("targets", "computed", "operations"),
    # Values are grid values: for sparse clouds they do not fit into a host's caches. G2P counts
    # the values beyond `CACHED`.
    "p2g_owner": ("colours", "sources", "updates", "idle", "values"),
    "p2g_tile": ("entries", "windows", "updates", "flushes", "part"),
    # Free directions give FGC more steps, in other threads than the kernels': these fall asleep,
    # and G2P wakes them. So free is the number of threads, or 0. On a CPU a value of a line takes
    # nearly twice as long as one of a box or plane: lines cross memory in the largest strides.
    "fgc": ("boxes", "lines", "planes", "free"),
    "g2p_target": ("targets", "reads", "beyond", "free"),
    "g2p_tile": ("targets", "reads", "staged", "part", "free"),
}
# The stages that have a factor of their own; P2P by kept lists is one.
STAGES = ("p2p", "kept", "p2g", "fgc", "g2p")


def near_name(variant: str, repeated: bool) -> str:
    """Return the name of a variant of P2P in `COUNTS`; kept lists have a name of their own."""
    return "kept_tile" if repeated and variant == "tile" else f"p2p_{variant}"


def stage_of(variant: str) -> str:
    """Return the one of `STAGES` that a name in `COUNTS` belongs to."""
    return variant.partition("_")[0]


@dataclass(frozen=True)
class Machine:
    """Seconds per unit of work, for one precision.

    Attributes
    ----------
    name : str
        Source of the numbers.
    seconds : mapping of str to tuple of float
        Seconds of a variant's launches, then seconds for each of its `COUNTS`.
    usual : tuple of 3 str
        The usual variants of P2P, P2G and G2P.
    workers : float
        Divisor of all times except launches: threads over the threads of the measurement.
    lengths : TransformLengths
        Lengths of transforms and their costs, by which the values of FGC are weighted.
    lanes : int
        Numbers in a vector, by which windows are computed; 1 on devices.
    threads : int
        Threads of the CPU.
    degrees : int
        Near polynomials have multiples of this degree, because each degree is a kernel.
    """

    name: str
    seconds: Mapping[str, tuple[float, ...]]
    usual: tuple[str, str, str]
    workers: float = 1.0
    lengths: TransformLengths = EQUAL_LENGTHS
    lanes: int = 1
    threads: int = 1
    degrees: int = 2

    def time(self, variant: str, counts: tuple[float, ...]) -> float:
        """Return the predicted seconds of a variant."""
        launch, *units = self.seconds[variant]
        return launch + sum(s * n for s, n in zip(units, counts, strict=True)) / self.workers

    def counted(self, stage: str, variant: str) -> str:
        """Return the variant whose numbers are used for a variant: itself, or the usual one."""
        place = ("p2p", "p2g", "g2p").index(stage)
        return variant if f"{stage}_{variant}" in self.seconds else self.usual[place]
