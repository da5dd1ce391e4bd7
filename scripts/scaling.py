"""Weak and strong scaling of the combined sum over the ranks of mpirun, by stage.

    mpirun -n 2 python scripts/scaling.py --space Cuda --points 4000000 --weak --json FILE
    mpirun -n 4 python scripts/scaling.py --points 100000 --periodicity 3
    python scripts/scaling.py --docs docs/results/scaling-*.json       # write docs/scaling.md

With ``--weak``, ``--points`` is the number per rank, and the box grows with the ranks along its
first axis, as in table 11 of Kosmacher, Du, Bagge and Biros (2026), whose rows are printed as well.
Otherwise it is the number over all ranks, in the unit cube. One start measures one number of ranks;
records are added to FILE, and all of them are shown.

Points are uniform. They are given in two ways: anywhere (``random``), and on the ranks of their
slabs (``home``), as is possible in time steps. Times are medians of the slowest rank. Stages are
timed one after the other; the whole application is timed with the near field during exchanges (on
devices) and without. Parameters are chosen for each run; the paper kept the parameters of one GPU.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import page, record
from benchmarks import show as pictures
from benchmarks.run import TINY, Run, asked, basic_parser
from mpi4py import MPI

from parki import distributed
from parki.distributed import use_local_gpu

RUNS = 7
# Milliseconds of table 11 by number of GPUs (H200s over 400 Gbit/s InfiniBand, tolerance 1e-4). The
# paper has twelve transforms, parki four and three components. None means that there is no step.
RANKS = (1, 2, 4, 8, 16, 32, 64)
PAPER: dict[str, tuple[float | None, ...]] = {
    "sort": (None, 16.5, 23.7, 37.1, 61.3, 110.4, 222.0),
    "ghosts": (None, 7.6, 8.1, 8.0, 8.0, 8.0, 7.2),
    "P2P": (227.4, 232.2, 232.2, 234.2, 235.1, 231.5, 229.9),
    "P2G": (45.9, 53.6, 51.3, 51.6, 49.9, 50.5, 45.0),
    "halo": (None, 6.9, 6.2, 6.1, 5.7, 5.5, 2.7),
    "FGC": (77.6, 263.2, 332.2, 372.5, 397.8, 407.9, 436.8),  # FFT, CNV and IFFT
    "G2P": (33.3, 35.2, 34.0, 32.7, 32.0, 31.4, 30.5),
}
ROWS = ("plan", "update", "sort", "densities", "ghosts", "P2P", "P2G", "halo", "FGC", "G2P")
ROWS += ("results", "stages", "apply apart", "apply")


def measure(run: Run, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the times for this number of ranks, equal on all of them."""
    comm, size, rank, xp = run.comm, run.comm.size, run.comm.rank, run.xp
    n = arguments.points if arguments.weak else arguments.points // size
    box = (float(size) if arguments.weak else 1.0, 1.0, 1.0)
    rng = np.random.default_rng((run.seed, rank))
    points = run.send(np.array(box)[:, None] * rng.random((3, n)), arguments.dtype)
    norms = run.send(rng.standard_normal((3, n)), arguments.dtype)
    dens = run.send(rng.standard_normal((6, n)), arguments.dtype)
    options = run.options(arguments.periodicity, arguments.tolerance, box)

    def median(call: Callable[[], Any]) -> float:
        return run.medians({"": call}, RUNS, by=run.clock)[""]

    found: dict[str, Any] = {"ranks": size, "points": n * size, "box": box}
    for way in ("random", "home"):
        if way == "home":
            points, norms, dens = plan.migrate(points, norms, dens)  # noqa: F821 (of "random")
        plan = None
        step = run.send(1e-3 * rng.standard_normal(points.shape), arguments.dtype)
        near = points + step  # the next time step
        near[1:] = xp.clip(near[1:], 0, 1)
        near[0] = xp.clip(near[0], 0, box[0])

        def build() -> Any:
            return distributed.Plan("stokes_comb", points, points, norms, options, comm=comm)  # noqa: B023

        seconds = {"plan": median(build)}
        plan = build()
        ways = [near, points]

        def update() -> None:
            ways.reverse()  # noqa: B023
            plan.update_points(ways[1], ways[1], norms)  # noqa: B023

        seconds["update"] = median(update)
        plan.update_points(points, points, norms)
        seconds["sort"] = median(lambda: plan.migrate(points, norms))  # noqa: B023
        out = xp.empty((3, points.shape[1]), dtype=points.dtype)
        for name, overlap in (("apply", True), ("apply apart", False)):
            plan.pipeline.overlap = overlap
            seconds[name] = median(lambda: plan(dens, out=out))  # noqa: B023
        seconds.update(run.stages(plan, dens, RUNS))
        seconds["halo"] = seconds.pop("P2G halo") + seconds.pop("G2P halo")
        seconds["stages"] = sum(s for name, s in seconds.items() if name in ROWS[3:11])
        sent = _mean(comm, plan.sent)
        found[way] = {"seconds": seconds, "sent": sent}
    chosen = plan.parameters
    found["transport"] = plan.transport.name
    found["parameters"] = {
        "cutoff": chosen.cutoff * float(np.prod(plan.box)) ** (1 / 3),
        "P": chosen.points,
        "grid": list(plan.setup.mesh.padding.grid),
    }
    found["describe"] = plan.describe()
    return found


def _mean(comm: Any, sent: dict[str, int]) -> dict[str, float]:
    """Return the mean over the ranks of bytes by label; not all ranks have the same labels."""
    told = comm.allgather(sent)
    labels = dict.fromkeys(label for one in told for label in one)
    return {label: sum(one.get(label, 0) for one in told) / len(told) for label in labels}


def sections(records: list[record.Record]) -> str:
    """Return a table for each task, with a column for each number of ranks."""
    tasks: dict[tuple[Any, ...], list[record.Record]] = {}
    for found in records:
        settings = found["settings"]
        by_rank = settings["weak"]
        points = found["results"]["points"] // (found["results"]["ranks"] if by_rank else 1)
        key = (found["machine"]["name"], by_rank, settings["periodicity"], settings["tolerance"])
        tasks.setdefault((*key, settings["dtype"], points), []).append(found)
    text = ""
    for (machine, by_rank, periodicity, tolerance, dtype, points), runs in tasks.items():
        kind = "a rank, weak" if by_rank else "in all, strong"
        text += f"## {machine}: {periodicity}-periodic, tolerance {tolerance:g}, "
        text += f"{points:,} points {kind}\n\n"
        columns: list[tuple[str, dict[str, float | None]]] = []
        notes = []
        for found in sorted(runs, key=lambda r: int(r["results"]["ranks"])):
            results = found["results"]
            ranks, sent = results["ranks"], results["home"]["sent"]
            for way in ("random", "home") if ranks > 1 else ("random",):
                head = f"{ranks}, {way}" if ranks > 1 else "1 rank"
                seconds = results[way]["seconds"]
                columns.append((head, {row: 1e3 * seconds[row] for row in ROWS}))
            if by_rank and periodicity == 1 and tolerance == 1e-4 and ranks in RANKS:
                place = RANKS.index(ranks)
                columns.append((f"{ranks}, paper", {row: ms[place] for row, ms in PAPER.items()}))
            grid = " x ".join(map(str, results["parameters"]["grid"]))
            note = f"{ranks} by {results['transport']}: grid {grid}, P = "
            note += str(results["parameters"]["P"])
            if each := ", ".join(f"{k} {v / 1e6:.3g}" for k, v in sent.items() if v):
                moved = 1e3 * sum(sent.values()) / LINK
                note += f"; MB sent by a rank in one application (home): {each}; at "
                note += f"{LINK / 1e9:.0f} GB/s they take {moved:.1f} ms"
            notes.append(f"- {note}\n")
        rows = []
        for row in ROWS:
            values = [column.get(row) for _, column in columns]
            rows.append([row, *("" if v is None else f"{v:.1f}" for v in values)])
        versions = ", ".join(f"{k} {v}" for k, v in runs[0]["versions"].items())
        notes.append(f"- {pictures.precision(dtype)} precision; {versions}\n")
        text += (
            f"{pictures.markdown(['', *(head for head, _ in columns)], rows)}\n{''.join(notes)}\n"
        )
    return text


# --- a model of weak scaling: stages of one GPU, and bytes over rates -----------------------------

# It ignores latencies, imbalance, and slower networks under full load.
GPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
HOST = 8  # GPUs of a host
# Bytes per second for each GPU: an all-to-all of 100 MB to each other one within a host of four
# H200s, as measured, and network cards of 100 to 800 Gbit/s.
LINK, CARDS = 254e9, (12.5e9, 25e9, 50e9, 100e9)
EXCHANGES = ("FGC", "FGC lines", "FGC modes")


def modelled(ranks: int, alone: dict[str, float], sent: dict[str, float], card: float) -> float:
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


def model(records: list[record.Record]) -> str:
    """Return the section of the page, from records of one rank and of two."""
    kinds = "weak", "periodicity", "tolerance"
    by_ranks = {
        found["results"]["ranks"]: found["results"]
        for found in records
        if [found["settings"][name] for name in kinds] == [True, 1, 1e-4]
    }
    if not {1, 2} <= set(by_ranks):
        return ""
    alone, sent = by_ranks[1]["home"]["seconds"], by_ranks[2]["home"]["sent"]

    def cells(ranks: int) -> list[str]:
        return [f"{1e3 * modelled(ranks, alone, sent, card):.0f}" for card in CARDS]

    rows = [[ranks, *cells(ranks)] for ranks in GPUS]
    table = pictures.markdown(("GPUs", *(f"{card / 1.25e8:.0f} Gbit/s" for card in CARDS)), rows)
    most = max(by_ranks)
    least, last = sorted(by_ranks[most][way]["seconds"]["apply"] for way in ("random", "home"))
    words = (
        f"Milliseconds of an application of 4,000,000 points on each GPU, by network cards and "
        f"{LINK / 1e9:.0f} GB/s within a host. Measurements gave {1e3 * least:.0f} to "
        f"{1e3 * last:.0f} for {most} GPUs:"
    )
    return f"{textwrap.fill(words, 100)}\n\n{table}"


def text(records: list[record.Record]) -> str:
    """Return the page of the docs."""
    parts = {"scaling": sections, "model": model}
    return page.fill("scaling", lambda name: parts[name](records).rstrip("\n") + "\n")


def draw(records: list[record.Record], file: Path) -> None:
    """Draw the time of an application of each task, a bar for each number of ranks."""
    tasks: dict[str, dict[int, float]] = {}
    for found in records:
        settings, results = found["settings"], found["results"]
        kind = "weak" if settings["weak"] else "strong"
        name = f"{settings['periodicity']}-periodic\n{settings['tolerance']:g}, {kind}"
        milliseconds = 1e3 * results["home"]["seconds"]["apply"]
        tasks.setdefault(name, {})[results["ranks"]] = milliseconds
    made, (axis,) = pictures.figure(1, 3.6, 7.5)
    ranks = sorted({n for times in tasks.values() for n in times})
    width = 0.8 / len(ranks)
    colours = (pictures.MILD, pictures.PARKI, pictures.PAPER, pictures.DARK)
    for place, (n, colour) in enumerate(zip(ranks, colours, strict=False)):
        here = [task for task, times in enumerate(tasks.values()) if n in times]
        heights = [times[n] for times in tasks.values() if n in times]
        at = np.array(here) + (place - (len(ranks) - 1) / 2) * width
        label = f"{n} rank{'s' if n > 1 else ''}"
        axis.bar_label(axis.bar(at, heights, width, color=colour, label=label), fmt="%.0f")
    axis.set_xticks(np.arange(len(tasks)), list(tasks))
    axis.set(ylabel="milliseconds")
    axis.legend()
    pictures.save(made, file, records[0]["machine"]["name"])


def main() -> None:
    """Measure on the ranks of mpirun; the first one writes and prints."""
    parser = basic_parser(__doc__)
    parser.set_defaults(points=100_000)
    parser.add_argument("--weak", action="store_true")
    parser.add_argument("--periodicity", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--dtype", choices=("f8", "f4"), default="f8")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, nargs="+", metavar="FILE", help="write the page")
    arguments = parser.parse_args()
    if arguments.docs:
        records = record.read(arguments.docs)
        page.write("scaling", text(records))
        draw(records, page.DOCS / "images/scaling.png")
        return
    comm = MPI.COMM_WORLD
    if arguments.quick:
        arguments.points = TINY
    run = asked(arguments, comm=comm)
    if run.device:
        use_local_gpu(comm)
    start = time.perf_counter()
    results = measure(run, arguments)
    if comm.rank:
        return
    found = record.record("scaling", run, time.perf_counter() - start, results)
    found["versions"]["mpi"] = MPI.Get_library_version().split("\n")[0].strip("\0")
    for name in ("weak", "periodicity", "tolerance", "dtype"):
        found["settings"][name] = getattr(arguments, name)
    records = [found]
    if arguments.json:
        if arguments.json.exists():
            records = [*record.read([arguments.json]), found]
        record.write(arguments.json, records)
    print(results["describe"])
    print(sections(records), flush=True)


if __name__ == "__main__":
    main()
