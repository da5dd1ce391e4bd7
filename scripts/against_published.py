"""Time whole sums against the published code's times on two cores of a CPU.

    python scripts/against_published.py [--most 1000000]

The sums are `stokes_comb` in double precision, with sources = targets, uniform in the unit cube.
The script prints a table in Markdown with the published seconds (ParkiPy at c3c097f, two threads of
an AMD EPYC with AVX-512, kernels compiled, best of 2 to 3 runs) and parki's (medians of 3 to 15
one-shot sums and 5 applications). It also prints the yardsticks of `check_device.py`, which took
0.103 s (SciPy), 0.51 s (NumPy), 0.029 and 0.043 s (FINUFFT) on that machine. FINUFFT is timed
before and after each row; the column in brackets corrects the ratio for the machine's speed.
"""

from __future__ import annotations

import argparse

from check_device import finufft_types, timing, yardsticks

# Published seconds by periodicity, points and tolerance.
PUBLISHED = {
    (3, 10_000, 1e-4): 0.31,
    (1, 10_000, 1e-4): 0.50,
    (3, 10_000, 1e-9): 1.24,
    (1, 10_000, 1e-9): 1.48,
    (3, 100_000, 1e-4): 4.32,
    (1, 100_000, 1e-4): 8.26,
    (3, 100_000, 1e-9): 11.2,
    (1, 100_000, 1e-9): 20.3,
    (3, 400_000, 1e-4): 18.8,
    (1, 400_000, 1e-4): 28.3,
    (3, 400_000, 1e-9): 44.1,
    (1, 400_000, 1e-9): 106.7,
    (3, 1_000_000, 1e-4): 59.3,
    (1, 1_000_000, 1e-4): 89.4,
}
FINUFFT = 0.029 + 0.043  # seconds of its two types on that machine
STAGES = ("P2P", "P2G", "FGC", "G2P")
HEAD = (
    *("periodic", "N", "tolerance", "published code", "one-shot", "times faster"),
    *("FINUFFT", "(as fast a machine)", "apply"),
)


def main() -> None:
    """Print the table and the yardsticks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="largest size")
    args = parser.parse_args()
    print("| " + " | ".join((*HEAD, *STAGES)) + " |")
    print("| --- " * len((*HEAD, *STAGES)) + "|")
    for (periodicity, n, tolerance), published in PUBLISHED.items():
        if n > args.most:
            continue
        before = sum(finufft_types().values())
        row = timing("CPU", n, periodicity, tolerance, "float64")
        beside = (before + sum(finufft_types().values())) / 2
        faster = published / row["one_shot"]
        scaled = f"({faster * beside / FINUFFT:.1f})" if beside else "(not installed)"
        seconds = [row["apply"], *(row["stages"][stage] for stage in STAGES)]
        print(
            f"| {periodicity} | {n:,} | {tolerance:.0e} | {published:g} | {row['one_shot']:.3g} "
            f"| {faster:.1f} | {beside:.3f} | {scaled} | "
            + " | ".join(f"{value:.3g}" for value in seconds)
            + " |",
            flush=True,
        )
    for name, value in yardsticks().items():
        print(f"{name}: {value:.3f} s")


if __name__ == "__main__":
    main()
