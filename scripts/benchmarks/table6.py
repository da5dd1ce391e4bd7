"""Table 6: variants of the near field.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.near.sizes import CELL_METHODS, Launch, choose_launch

from .near import NAMES, Near, block, own_variants
from .record import Record
from .run import Run, apart
from .show import Table, count, ms, number

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
ROUNDS = 3


def measure(run: Run) -> dict[str, Any]:
    """Return a case for each number of sources in r_c^3."""
    n = run.size(20_000, 1_000_000)
    case = Near(run, n, cell_size=30 if run.quick else 256)
    launches = {method: best_launch(case, method) for method in CELL_METHODS}
    sizes = (30,) if run.quick else (256, 512)
    cases = []
    for size in sizes:
        case.resize(size)
        pairs = case.pairs()
        cases.append({"cell_size": size, "pairs": pairs, "rows": variants(case, launches, pairs)})
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


def variants(case: Near, launches: dict[str, Launch], pairs: float) -> list[dict[str, Any]]:
    """Return measurements of the default variant and all others, which alternate."""
    own = own_variants(case.run)
    chosen: list[tuple[str, Launch | None]] = [(name, None) for name in own]
    chosen += launches.items()
    chosen += [(method, launches[method]._replace(width=0.5)) for method in NARROW]
    calls = [case.near_field(*variant) for variant in chosen]
    results = [call() for call in calls]
    names = {str(number): call for number, call in enumerate(calls)}
    medians = [*case.run.medians(names, ROUNDS, first=0).values()]
    return [
        {
            "method": method,
            "block": [launch.team, launch.vectors] if launch else None,
            "width": launch.width if launch else None,
            "seconds": seconds,
            "targets_per_microsecond": case.n / seconds / 1e6,
            "pairs_per_second": pairs / seconds,
            "ratio": seconds / medians[0],
            "difference": apart(result, results[0]),
        }
        for (method, launch), result, seconds in zip(chosen, results, medians, strict=True)
    ]


def name_of(row: dict[str, Any]) -> str:
    """Return the name of a variant in the table."""
    return NAMES[row["method"]] + (", cells r_c / 2" if row["width"] == 0.5 else "")


def tables(record: Record) -> list[Table]:
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
