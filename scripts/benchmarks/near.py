"""Near fields: tables 3 and 6, and figure 6, time P2P by any variant.

The cut-off follows from the number of sources in r_c^3. The split keeps its shape (xi r_c, or the
prolate c) when that number changes, so that all cases use the same kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parki import Expert
from parki.ewald.lattice import Lattice
from parki.ewald.near.near_field import NearField
from parki.ewald.near.p2p import P2P
from parki.ewald.near.sizes import Launch, choose_launch
from parki.ewald.options.variants import CELL_METHODS
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.one_shot import place_and_sum
from parki.ewald.points import take_cloud
from parki.ewald.solver_box import SolverBox

from . import Case, models
from .ceilings import ceilings
from .record import Record, on_device
from .run import ROUNDS, Run, apart
from .show import MARKS, SERIES, Table, count, figure, ms, number, save

PERIODICITY, TOLERANCE = 1, 1e-4
SAMPLED = 200  # targets whose neighbours are counted
# Names of the variants: parki's own, and the paper's as in its tables.
NAMES = {
    "tile": "parki, tiles",
    "staged": "parki, staged",
    "gm1d": "GM-1D",
    "gm2d": "GM-2D",
    "sm1d": "SM-1D",
    "sm2d": "SM-2D",
}


def own_variants(run: Run) -> tuple[str, str]:
    """Return parki's own variants, the one meant for the space first."""
    return ("tile", "staged") if run.device else ("staged", "tile")


def block(sizes: Any) -> str:
    """Return the cell of a block of threads and lanes, or ''."""
    return "({}, {})".format(*sizes) if sizes else ""


class Near:
    """Uniform points that are sources and targets, and the input of P2P.

    Attributes
    ----------
    cell_size : float
        Sources in r_c^3.
    pairs : float
        Number of pairs closer than r_c, counted for some of the targets.
    degree : int
        Degree of the near field's polynomials.
    predicted : float
        Seconds of P2P by parki's own model of costs.
    """

    def __init__(
        self,
        run: Run,
        n: int,
        kernel: str = "stokes_comb",
        cell_size: float = 256,
        dtype: str = "f8",
    ) -> None:
        self.run, self.n, self.kernel, self.cell_size = run, n, kernel, cell_size
        self.points, dens, self.norms = run.cloud(kernel, n, dtype)
        self.dens = dens.reshape(-1, n)
        options = run.options(PERIODICITY, TOLERANCE, expert=Expert(sources_per_cell=cell_size))
        # One sum keeps no lists of pairs, like all variants here.
        cloud = take_cloud(kernel, self.points, self.points, self.norms, options)
        placed, _ = place_and_sum(SERIAL.engine(), kernel, cloud, dens)
        setup = placed.pipeline.setup
        if setup is None or setup.solver_box.unit != 1:
            raise RuntimeError("P2P takes solver units, which are not ours in this box")
        chosen, self.task = setup.parameters, setup.task
        self.split, self.degree = chosen.split, chosen.degree
        self.cutoff = self.first_cutoff = chosen.cutoff
        self.predicted = chosen.seconds["P2P"]
        self.pairs = self._pairs()

    def resize(self, cell_size: float) -> None:
        """Change the number of sources in r_c^3."""
        self.cell_size = cell_size
        self.cutoff = (cell_size / self.n) ** (1 / 3)
        self.pairs = self._pairs()

    def _pairs(self) -> float:
        """Return the number of pairs closer than r_c, counted for some of the targets."""
        images = math.ceil(self.cutoff)
        ranges = [
            range(-images, images + 1) if axis < PERIODICITY else range(1) for axis in range(3)
        ]
        shifts = self.run.xp.asarray(list(itertools.product(*ranges)))
        sampled = min(self.n, SAMPLED)
        found = 0
        for i in range(sampled):
            for shift in shifts:
                away = self.points - (self.points[:, i] + shift)[:, None]
                found += ((away**2).sum(axis=0) < self.cutoff**2).sum()
        return self.n * int(found) / sampled

    def near_field(self, method: str, launch: Launch | None = None) -> Callable[[], Any]:
        """Return a function that computes the near field by a variant."""
        split = self.split.scaled(self.cutoff / self.first_cutoff)
        radial = split.radial_polynomials(self.cutoff, self.degree)
        launch = launch or choose_launch(method, self.task.space)
        near = NearField(self.task, self.cutoff, radial, method, launch=launch)
        frame = SolverBox(Lattice(np.ones(3), PERIODICITY))
        p2p = P2P(near, frame, self.points, self.points, self.norms)
        if p2p.lists is not None:
            p2p.lists.keep = False
        pot = self.run.xp.empty_like(self.points[: 1 if len(self.dens) == 1 else 3])
        buffer = p2p.buffer(len(self.dens))

        def call() -> Any:
            p2p.apply(self.dens[None], buffer, {"u": pot[None]})
            return pot

        return call


Variant = tuple[str, Launch | None]


def variants(case: Near, chosen: list[Variant], rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Return measurements of variants, which alternate; the first one is the reference."""
    calls = {str(k): case.near_field(*variant) for k, variant in enumerate(chosen)}
    results = [call() for call in calls.values()]
    medians = [*case.run.medians(calls, rounds, first=0).values()]
    return [
        {
            "method": method,
            "block": [launch.team, launch.vectors] if launch else None,
            "width": launch.width if launch else None,
            "seconds": seconds,
            "targets_per_microsecond": case.n / seconds / 1e6,
            "pairs_per_second": case.pairs / seconds,
            "ratio": seconds / medians[0],
            "difference": apart(result, results[0]),
        }
        for (method, launch), result, seconds in zip(chosen, results, medians, strict=True)
    ]


# --- table 3: models against the measured time ----------------------------------------------------

# Milliseconds on one H200, 4e6 points, 256 sources in a cell: the measurement, then the models.
MODELLED = {
    "gm1d": (261, 854, 357, 257, 190),
    "gm2d": (336, 855, 357, 257, 190),
    "sm1d": (258, 278, 262, 259, 190),
    "sm2d": (323, 267, 260, 258, 190),
}
CELL_SIZE = 256


def measure_models(run: Run) -> dict[str, Any]:
    """Return measured and modelled seconds for each variant."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    case = Near(run, n, cell_size=min(CELL_SIZE, n / 8))
    flops = models.pair_flops("stokes_comb", case.degree, machine.root)
    share = math.pi / 6 * 27 * case.cell_size * n  # pairs by the paper's model
    chosen: list[Variant] = [(name, None) for name in own_variants(run)]
    chosen += [(method, choose_launch(method, run.space)) for method in CELL_METHODS]
    rows = variants(case, chosen)
    for row, (method, launch) in zip(rows, chosen, strict=True):
        by_pairs, by_share = (
            models.near(method, launch, n, counted, case.cell_size, flops, run.device)
            for counted in (case.pairs, share)
        )
        row["models"] = by_pairs.seconds(machine)
        row["paper_share"] = by_share.seconds(machine)["Tf"] if launch else None
    found = {"points": n, "cell_size": case.cell_size, "degree": case.degree}
    found |= {"pairs": case.pairs, "flops_per_pair": flops, "predicted": case.predicted}
    return found | {"ceilings": vars(machine), "rows": rows}


def model_tables(record: Record) -> list[Table]:
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
                lambda row: " / ".join(map(str, MODELLED.get(row["method"], ()))),
            ),
            notes=[note],
        )
    ]


# --- table 6: variants ----------------------------------------------------------------------------

# The paper's results for 10^6 points on an H200, by sources in r_c^3: block (threads, lanes),
# targets per microsecond and flop efficiency in per cent.
PAPER = {
    256: {
        "gm1d": ((64, 1), 14.8, 71),
        "gm2d": ((1, 32), 11.8, 56),
        "sm1d": ((32, 1), 15.2, 72),
        "sm2d": ((64, 2), 12.4, 59),
    },
    512: {
        "gm1d": ((64, 1), 8.0, 76),
        "gm2d": ((2, 32), 6.7, 63),
        "sm1d": ((32, 1), 8.2, 78),
        "sm2d": ((128, 2), 6.6, 63),
    },
}
# Blocks to try on a device, from the paper's sets; they include its best ones.
BLOCKS = {
    "gm1d": ((32, 1), (64, 1), (128, 1)),
    "gm2d": ((1, 32), (2, 32), (8, 32)),
    "sm1d": ((32, 1), (64, 1)),
    "sm2d": ((64, 2), (128, 2)),
}
NARROW = ("gm1d", "sm1d")  # also measured with cells of r_c / 2


def measure_variants(run: Run) -> dict[str, Any]:
    """Return a case for each number of sources in r_c^3."""
    n = run.size(20_000, 1_000_000)
    case = Near(run, n, cell_size=30 if run.quick else 256)
    launches = {method: best_launch(case, method) for method in CELL_METHODS}
    chosen: list[Variant] = [(name, None) for name in own_variants(run)]
    chosen += launches.items()
    chosen += [(method, launches[method]._replace(width=0.5)) for method in NARROW]
    cases = []
    for size in (30,) if run.quick else (256, 512):
        case.resize(size)
        rows = variants(case, chosen, 3)
        cases.append({"cell_size": size, "pairs": case.pairs, "rows": rows})
    return {"points": n, "degree": case.degree, "cases": cases}


def best_launch(case: Near, method: str) -> Launch:
    """Return the launch of a variant; on a device, with the fastest block."""
    chosen = choose_launch(method, case.run.space)
    if chosen is None:
        raise RuntimeError(f"{method} has no blocks")
    if not case.run.device:
        return chosen
    times = {}
    for team, vectors in BLOCKS[method]:
        launch = chosen._replace(
            team=team, vectors=vectors, targets=team, chunk=max(64, team * vectors)
        )
        call = case.near_field(method, launch)
        call()
        times[launch] = case.run.seconds(call)
    return min(times, key=lambda launch: times[launch])


def name_of(row: dict[str, Any]) -> str:
    """Return the name of a variant in the table."""
    return NAMES[row["method"]] + (", cells r_c / 2" if row["width"] == 0.5 else "")


def variant_tables(record: Record) -> list[Table]:
    """Return a table for each number of sources in r_c^3."""
    found, made = record["results"], []
    for case in found["cases"]:
        # The paper's block, targets per microsecond and efficiency of the same variant.
        papers = PAPER.get(int(case["cell_size"]), {})
        rows = [
            (row, papers.get(row["method"]) if row["width"] == 1 else None) for row in case["rows"]
        ]
        made.append(
            Table.of(
                f"P2P, {count(found['points'])} points, {case['cell_size']:g} sources in r_c³, "
                f"degree {found['degree']}, {case['pairs']:.3g} pairs",
                rows,
                ("variant", lambda row: name_of(row[0])),
                ("block", lambda row: block(row[0]["block"])),
                ("ms", lambda row: ms(row[0]["seconds"])),
                ("targets/µs", lambda row: number(row[0]["targets_per_microsecond"])),
                ("Gpairs/s", lambda row: number(row[0]["pairs_per_second"] / 1e9)),
                ("over the first", lambda row: f"{row[0]['ratio']:.2f}"),
                ("difference", lambda row: f"{row[0]['difference']:.0e}"),
                ("paper, H200, 1 million: block", lambda row: block(row[1] and row[1][0])),
                ("targets/µs", lambda row: number(row[1] and row[1][1])),
                ("flops", lambda row: f"{row[1][2]} %" if row[1] else ""),
            )
        )
    return made


# --- figure 6: workloads --------------------------------------------------------------------------

KERNELS = {"laplace": "Laplace", "stokes_sl": "single layer", "stokes_comb": "both layers"}
SIZES = (64, 128, 256, 512)
SHARES = {"laplace": 60, "stokes_comb": 76}  # per cent of the H200's peak at 512 sources


def paper_pairs(size: float) -> float | None:
    """Return the paper's pairs per second for GM-1D with both layers, or None."""
    if size not in PAPER:
        return None
    return 1e6 * PAPER[int(size)]["gm1d"][1] * 4 / 3 * math.pi * size


def measure_workloads(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, variant and number of sources in r_c^3."""
    machine = ceilings(run)
    n = run.size(20_000, 1_000_000)
    sizes = (30,) if run.quick else SIZES
    rows = []
    for kernel in KERNELS:
        case = Near(run, n, kernel, cell_size=sizes[-1] / 2)
        flops = models.pair_flops(kernel, case.degree, machine.root)
        for size in sizes:
            case.resize(size)
            for row in variants(case, [(own_variants(run)[0], None), ("gm1d", None)]):
                row |= {"kernel": kernel, "cell_size": size}
                row["share"] = row["pairs_per_second"] * flops / machine.flops
                rows.append(row)
    return {"points": n, "ceilings": vars(machine), "rows": rows}


def workload_tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    found = record["results"]

    def pairs(row: dict[str, Any]) -> str:
        full = row["kernel"] == "stokes_comb" and row["method"] == "gm1d"
        known = paper_pairs(row["cell_size"]) if full else None
        return number(known / 1e9) if known else ""

    def share(row: dict[str, Any]) -> str:
        known = row["method"] == "gm1d" and row["cell_size"] == 512 and SHARES.get(row["kernel"])
        return f"{known} %" if known else ""

    return [
        Table.of(
            f"P2P by workload: {count(found['points'])} points",
            found["rows"],
            ("workload", lambda row: KERNELS[row["kernel"]]),
            ("variant", lambda row: NAMES[row["method"]]),
            ("sources in r_c³", lambda row: number(row["cell_size"])),
            ("targets/µs", lambda row: number(row["targets_per_microsecond"])),
            ("Gpairs/s", lambda row: number(row["pairs_per_second"] / 1e9)),
            ("of the peak", lambda row: f"{100 * row['share']:.0f} %"),
            ("paper, H200, 1 million: Gpairs/s", pairs),
            ("of the peak, its count", share),
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw pairs per second and fractions of the peak."""
    found = record["results"]
    made, (left, right) = figure(2, 4.4)
    for k, (kernel, name) in enumerate(KERNELS.items()):
        for own in (True, False):
            of = kernel, own
            rows = [r for r in found["rows"] if (r["kernel"], r["method"] != "gm1d") == of]
            style = {
                "color": SERIES[k],
                "marker": MARKS[k + 1],
                "linestyle": "-" if own else ":",
                "markerfacecolor": SERIES[k] if own else "white",
                "label": name + ("" if own else ", GM-1D"),
            }
            sizes = [row["cell_size"] for row in rows]
            left.plot(sizes, [row["pairs_per_second"] / 1e9 for row in rows], **style)
            right.plot(sizes, [100 * row["share"] for row in rows], **style)
    if on_device(record):
        known = [(size, paper_pairs(size)) for size in SIZES]
        points = [(size, pairs / 1e9) for size, pairs in known if pairs]
        style = {"linestyle": "", "marker": "X", "markersize": 10, "color": SERIES[2]}
        left.plot(*zip(*points, strict=True), label="both layers, paper, H200", **style)
    for axis, title in (
        (left, "Pairs within $r_c$, 10⁹ per second"),
        (right, "Per cent of the peak"),
    ):
        axis.set_xscale("log", base=2)
        sizes = sorted({row["cell_size"] for row in found["rows"]})
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axis.set(title=title, xlabel="sources in $r_c^3$", ylim=(0, None))
        axis.grid()
    handles, labels = left.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside right center")
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")


CASES = {
    "table3": Case(
        "Table 3: models of the near field against its measured time.", measure_models, model_tables
    ),
    "table6": Case("Table 6: variants of the near field.", measure_variants, variant_tables),
    "figure6": Case(
        "Figure 6: workloads of the near field: Laplace (Poisson), single layer, both layers.",
        measure_workloads,
        workload_tables,
        draw,
    ),
}
