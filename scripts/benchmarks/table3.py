"""Table 3: models of the near field against its measured time.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

import math
from typing import Any

from parki.ewald.near.sizes import CELL_METHODS, choose_launch

from . import models
from .ceilings import ceilings
from .near import NAMES, Near, block, own_variants
from .record import Record
from .run import ENOUGH, ROUNDS, Run
from .show import Table, count, ms

# Milliseconds on one H200, 4e6 points, 256 sources in a cell: the measurement, then the models.
PAPER = {
    "gm1d": (261, 854, 357, 257, 190),
    "gm2d": (336, 855, 357, 257, 190),
    "sm1d": (258, 278, 262, 259, 190),
    "sm2d": (323, 267, 260, 258, 190),
}
CELL_SIZE = 256


def measure(run: Run) -> dict[str, Any]:
    """Return measured and modelled seconds for each variant."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    case = Near(run, n, cell_size=min(CELL_SIZE, n / 8))
    pairs = case.pairs()
    flops = models.pair_flops("stokes_comb", case.degree, machine.root)
    share = math.pi / 6 * 27 * case.cell_size * n  # pairs by the paper's model
    rows = []
    for method in (*own_variants(run), *CELL_METHODS):
        launch = choose_launch(method, run.space)
        by_pairs, by_share = (
            models.near(method, launch, n, counted, case.cell_size, flops, run.device)
            for counted in (pairs, share)
        )
        rows.append(
            {
                "method": method,
                "block": [launch.team, launch.vectors] if launch else None,
                "seconds": run.median(case.near_field(method, launch), ROUNDS, ENOUGH),
                "models": by_pairs.seconds(machine),
                "paper_share": by_share.seconds(machine)["Tf"] if launch else None,
            }
        )
    return {
        "points": n,
        "cell_size": case.cell_size,
        "degree": case.degree,
        "pairs": pairs,
        "flops_per_pair": flops,
        "predicted": case.predicted,
        "ceilings": vars(machine),
        "rows": rows,
    }


def tables(record: Record) -> list[Table]:
    """Return a table of parki's times and models with the paper's."""
    found = record["results"]
    top = found["ceilings"]
    note = (
        f"{found['pairs']:.3g} pairs of {found['flops_per_pair']:.0f} operations (degree "
        f"{found['degree']}). Ceilings measured in the same run: "
        f"{top['bandwidth'] / 1e9:.0f} GB/s, {top['flops'] / 1e9:.0f} GFLOP/s. parki's own "
        f"model of costs expected {ms(found['predicted'])} ms of the best variant."
    )
    return [
        Table.of(
            f"P2P, milliseconds: {count(found['points'])} points, "
            f"{found['cell_size']:g} sources in r_c³",
            found["rows"],
            ("variant", lambda row: NAMES[row["method"]]),
            ("block", lambda row: block(row["block"])),
            ("T", lambda row: ms(row["seconds"])),
            *models.TIMES,
            ("Tf, share π/6", lambda row: ms(row["paper_share"])),
            ("Tf / T", lambda row: f"{100 * row['models']['Tf'] / row['seconds']:.0f} %"),
            (
                "paper, H200: T / T0 / T∞ / T∞,L1 / Tf",
                lambda row: " / ".join(map(str, PAPER.get(row["method"], ()))),
            ),
            notes=[note],
        )
    ]
