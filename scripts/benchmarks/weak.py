"""A model of weak scaling: stages of one GPU, and bytes over the rates of the links.

It ignores latencies, imbalance, and slower networks under full load.
"""

from __future__ import annotations

import textwrap
from typing import Any

from .record import Record
from .show import markdown

RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
HOST = 8  # GPUs of a host
# Bytes per second for each GPU: an all-to-all of 100 MB to each other one within a host of four
# H200s, as measured, and network cards of 100 to 800 Gbit/s.
LINK, CARDS = 254e9, (12.5e9, 25e9, 50e9, 100e9)
EXCHANGES = ("FGC", "FGC lines", "FGC modes")


def seconds(ranks: int, alone: dict[str, float], sent: dict[str, float], card: float) -> float:
    """Return the seconds of an application.

    Parameters
    ----------
    ranks : int
    alone : dict
        Seconds of the stages on one GPU.
    sent : dict
        Bytes that one of two ranks sends, by step.
    card : float
        Bytes per second of a GPU's network card.
    """
    # With two ranks, each sends half of its modes to the other.
    modes = 2 * sum(size for step, size in sent.items() if step in EXCHANGES)
    near = min(ranks, HOST)
    exchange = modes * ((near - 1) / ranks / LINK + (ranks - near) / ranks / card)
    if ranks > 1:
        others = sum(size for step, size in sent.items() if step not in EXCHANGES)
        exchange += others / (LINK if ranks <= HOST else card)
    # The near field runs during exchanges.
    rest = alone["stages"] - alone["P2P"]
    return rest + max(alone["P2P"], exchange)


def section(records: list[Record]) -> str:
    """Return the section of the page, from records of one rank and of two."""
    weak = [
        found["results"]
        for found in records
        if found["settings"]["weak"]
        and (found["settings"]["periodicity"], found["settings"]["tolerance"]) == (1, 1e-4)
    ]
    by_ranks: dict[int, Any] = {found["ranks"]: found for found in weak}
    if not {1, 2} <= set(by_ranks):
        return ""
    alone = by_ranks[1]["home"]["seconds"]
    sent = by_ranks[2]["home"]["sent"]
    most = max(by_ranks)
    measured = sorted(1e3 * by_ranks[most][way]["seconds"]["apply"] for way in ("random", "home"))
    model = 1e3 * seconds(most, alone, sent, CARDS[0])
    words = (
        "**This is a model, not a measurement.** It takes the measured stages of one GPU, "
        "1-periodic with tolerance 1e-4 in double precision. To them it adds the times of the "
        "exchanges: their bytes over the rate of the link. Within a host of eight GPUs the rate is "
        f"{LINK / 1e9:.0f} GB/s, as measured on four, and beyond it is the rate of a network card "
        "for each GPU. The near field runs during the exchanges. The model gives "
        f"{model:.0f} ms for {most} GPUs. Measurements gave {measured[0]:.0f} to "
        f"{measured[1]:.0f} ms, as ranks take wider windows on coarser grids, and exchanges and "
        "the near field share the GPU. The table has the milliseconds of an application of "
        "4,000,000 points on each GPU."
    )
    ends = (
        "The model has no latencies. A rank sends a part of each component to each other rank, and "
        "these parts shrink with the number of ranks: to less than 1 MB for 256 of them, which a "
        "network moves at less than its full rate. In a box that does not grow, slabs end earlier: "
        "each holds a window's planes or more, so that a grid of 2048 planes has at most some 200 "
        "slabs. What would come next is a division along two axes, with exchanges among rows and "
        "columns of ranks."
    )
    rows = (
        [ranks, *(f"{1e3 * seconds(ranks, alone, sent, card):.0f}" for card in CARDS)]
        for ranks in RANKS
    )
    table = markdown(("GPUs", *(f"{card / 1.25e8:.0f} Gbit/s" for card in CARDS)), rows)
    words, ends = (textwrap.fill(each, 100) for each in (words, ends))
    return f"## A model of more GPUs\n\n{words}\n\n{table}\n{ends}\n\n"
