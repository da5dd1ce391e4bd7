"""Lists the kernels that come with the wheels: those of all sums by the usual variants.

`scripts/build_wheels.py` compiles them. This script prints their number, and compiles none.
"""

import math
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from parki.cells.runs import parts_kernels
from parki.cells.sorted_points import SortedPoints
from parki.dynamics import close, moments
from parki.ewald.choice.cost import USUAL
from parki.ewald.choice.machines import COMPILED_DEGREES
from parki.ewald.far import multiplier
from parki.ewald.far.fgc import FGC
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import MODES
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.padding import pad
from parki.ewald.far.spreading import spreading_kernels
from parki.ewald.lattice import Lattice, lattice
from parki.ewald.near.near_field import NearField
from parki.ewald.near.p2p import TOGETHER
from parki.ewald.near.p2p_kernels import near_kernel, near_kernels, slopes_kernel
from parki.ewald.near.p2p_labels import label_kernel
from parki.ewald.near.sizes import near_tile
from parki.ewald.options import MOST_POINTS, EwaldOptions
from parki.ewald.points import RESULTS
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.window import KaiserBessel
from parki.ewald.sums import SUMS
from parki.ewald.sums.tables import RadialTables
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import Kernel, get_execution_space, host, load, load_all, shipped
from parki.settings import thread_count
from parki.solving import search
from parki.surfaces import blocks, projections
from parki.surfaces.self_matrix import turning

SPACE = get_execution_space("OpenMP")
SECONDS = 10.0  # between progress messages
FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)
# Highest degree of the near field's polynomials, for the potential and for its derivatives; all are
# multiples of `COMPILED_DEGREES`. `parki.ewald.choice.parameters.select` chose them for tolerances
# from 0.3 to the smallest, 1 to 1 000 000 points, 0 to 3 periodic axes, cubes, long and flat boxes,
# and tight clusters. Derivatives of double layers and dipoles below 3e-10 need degrees of up to 36,
# and are left out because they would be many. One kappa has the kernels of all.
IMAGES = "multipoles(order=1)"  # of forces near a wall, with all results at once
MOST = {FLOAT64: (28, 32), FLOAT32: (20, 24)}  # of the others
DEGREES = {
    FLOAT64: dict.fromkeys(
        (
            *("laplace", "stokes_sl", "stokes_dl", "stokes_comb", "stokes_dipole"),
            *("yukawa(kappa=2.0)", "brinkman_sl(alpha=2.0)", "brinkman_dl(alpha=2.0)"),
        ),
        (28, 28),
    ),
    FLOAT32: {
        **dict.fromkeys(("laplace", "yukawa(kappa=2.0)"), (16, 20)),
        **dict.fromkeys(
            ("laplace_dipole", "stokes_sl", "stokes_rotlet", "brinkman_sl(alpha=2.0)"), (20, 20)
        ),
    },
}
# Sums that have derivatives by the box, and potentials that leave pairs out by `exclude`: the other
# sums' would be a third of all kernels.
BY_BOX = ("laplace", "stokes_sl", "stokes_rotlet", "yukawa(kappa=2.0)")
EXCLUDE = ("laplace", "stokes_sl", "stokes_dl")
SUMMED = (*SUMS, IMAGES)


def degrees(kernel: str, dtype: np.dtype) -> tuple[int, int]:
    """Return the highest degrees of a sum; one that was not measured has those of most."""
    return DEGREES[dtype].get(kernel, MOST[dtype])


def wants(kernel: str) -> list[tuple[str, ...]]:
    """Return the sets of results with their own kernels; stresses are computed from others."""
    names = [name for name in RESULTS if SUMS[kernel].terms.get(name)]
    if kernel == IMAGES:
        return [tuple(names)]
    return [want for n in range(1, 4) for want in combinations(names, n)]


def parts() -> list[tuple[Any, ...]]:
    """Return the parts of all kernels, each as a function and its arguments."""
    found: list[tuple[Any, ...]] = []
    for dtype in DEGREES:
        found.append((base, dtype))
        found += [(far, points, dtype) for points in range(2, MOST_POINTS[dtype] + 1)]
        found += [(near, kernel, dtype, want) for kernel in SUMMED for want in wants(kernel)]
    return found


def kernels() -> Iterator[Kernel]:
    """Yield the kernels of all sums by the usual variants; some more than once."""
    for make, *arguments in parts():
        yield from make(*arguments)


def base(dtype: np.dtype) -> Iterator[Kernel]:
    """Yield the kernels that depend only on the precision."""
    real = real_name(dtype)
    yield from SortedPoints.kernels(SPACE, real)
    yield load("cell_list", "place_systems", SPACE)
    yield load("cell_list", "sum_systems", SPACE, REAL=real)
    yield load("fgc", "sum_lowest_modes", SPACE, MODES=MODES)
    yield from load_all("flux", ("measure_dipoles", "add_linear"), SPACE, REAL=real)
    yield SortedPoints.pairs_kernel(SPACE)
    yield from parts_kernels(SPACE)
    yield from close.kernels(SPACE)
    yield from search.kernels(SPACE, spheres=0)
    yield from moments.kernels(SPACE)
    yield from blocks.kernels(SPACE)
    yield from projections.kernels(SPACE, real)
    yield from turning(SPACE, real)
    for rows in sorted({3, *(SUMS[name].rows for name in SUMMED)}):
        yield SortedPoints.gather_kernel(SPACE, dtype, rows)
    for rows in (1, 3, 9):  # rows of results
        yield SortedPoints.add_kernel(SPACE, dtype, rows)
    for kernel in ("laplace", "stokes_sl"):
        for periodicity in range(4):
            yield from multiplier.kernels(task(kernel, dtype, periodicity=periodicity))
        for periodicity in (2, 3):
            yield from multiplier.kernels(task(kernel, dtype, periodicity=periodicity, tilted=True))
    for name in ("find_tilted_cells", "multiply"):
        for boxes in ({}, {"BOXES": True}):
            yield load("cell_list", name, SPACE, REAL=real, **boxes)


def near(kernel: str, dtype: np.dtype, want: tuple[str, ...]) -> Iterator[Kernel]:
    """Yield the near field's kernels for some results."""
    tile = near_tile(SPACE, "staged", 0, 0.0, dtype)  # a host has only one
    last = degrees(kernel, dtype)[want != ("u",)]
    own = SUMS[kernel].pair
    tables = {*own.values, *own.derivatives, *own.tensors, *own.with_values, *own.slopes}
    for degree in range(COMPILED_DEGREES, last + 1, COMPILED_DEGREES):
        radial = RadialTables((table, np.zeros(degree + 1)) for table in tables)
        for periodicity in range(4):
            given = task(kernel, dtype, want, periodicity)
            field = NearField(given, 0.1, radial, "staged")
            yield from near_kernels(field, tile).values()
            if want == ("u",):
                for many in TOGETHER:
                    yield near_kernel(field, tile, many=many)
                if periodicity > 1:  # whose points have low words in single precision
                    tilted = task(kernel, dtype, want, periodicity, True)
                    yield near_kernel(field._replace(task=tilted), tile)
            if want == ("u",) and kernel in EXCLUDE:
                labelled = field._replace(task=replace(given, labelled=True))
                yield near_kernel(labelled, tile)
                for image in ("nearest", "given"):
                    options = replace(given.options, exclude_image=image)
                    yield label_kernel(field._replace(task=replace(given, options=options)))[0]
            if want == ("grad_u",) and kernel in BY_BOX and periodicity:
                yield slopes_kernel(field, tile, strain=True)


@cache
def task(
    kernel: str,
    dtype: np.dtype,
    want: tuple[str, ...] = ("u",),
    periodicity: int = 3,
    tilted: bool = False,
) -> Task:
    """Return a task; of tilted boxes come the kernels of potentials, for one density."""
    box: Any = lattice(1, 1, 1, xy=0.5) if tilted else [1, 1, 1]
    return Task(kernel, SPACE, dtype, EwaldOptions(periodicity, box), want)


def mesh(given: Task, points: int, gather: str = USUAL[False][2]) -> EwaldMesh:
    """Return a small grid with a window."""
    box = np.ones(3)
    steps = box / 64
    padding = pad(3, box, steps, points, 0.1, math.inf, 1e-6)
    window = KaiserBessel(points, 2.4 * points)
    return EwaldMesh(
        given, SolverBox(Lattice(box, 3)), steps, padding, window, USUAL[False][1], gather
    )


def far(points: int, dtype: np.dtype) -> Iterator[Kernel]:
    """Yield the kernels of the far field that depend on the grid's window and precision."""
    for kernel in SUMMED:
        for tilted in (False, True):
            yield from spreading_kernels(mesh(task(kernel, dtype, tilted=tilted), points))
        for flat in (2, 3):  # with friction, planes have a kernel of their own
            yield FGC.kernel(task(kernel, dtype, periodicity=flat, tilted=True))
        for want in wants(kernel):
            given = task(kernel, dtype, want)
            yield FGC.kernel(task(kernel, dtype, want, periodicity=2))
            yield FGC.kernel(given)
            for gather in (USUAL[False][2], "tile"):  # several systems use tiles
                yield from G2P.kernels(mesh(given, points, gather))


def told(steps: Iterable[Any], label: str, total: int) -> Iterator[Any]:
    """Pass steps on, and print their number every few seconds and at the end."""
    begun = said = time.monotonic()
    for done, step in enumerate(steps, 1):
        yield step
        now = time.monotonic()
        if now - said > SECONDS or done == total:
            said = now
            print(f"{label}: {done} of {total} ({(now - begun) / 60:.1f} minutes)", flush=True)


def sources_of(part: tuple[Any, ...]) -> dict[str, str]:
    """Return the source texts of a part's kernels, by name of the entry point."""
    make, *arguments = part
    texts = (kernel._object.source for kernel in make(*arguments))
    return {shipped.symbol(text): text for text in texts}


def all_sources(jobs: int) -> dict[str, str]:
    """Return the source texts of all kernels, by name of the entry point."""
    threads = host.THREADS.read_text(encoding="utf-8")
    found = {shipped.symbol(threads): threads}
    todo = parts()
    with ProcessPoolExecutor(jobs) as pool:
        for texts in told(pool.map(sources_of, todo), "kernels written in C++, parts", len(todo)):
            found.update(texts)
    return found


def main() -> None:
    print(f"{len(all_sources(thread_count()))} kernels for each set of instructions")


if __name__ == "__main__":
    main()
