"""Matrix-free finite elements, after Ljungkvist (2014): Poisson's equation, by parki's runtime.

    python examples/matrix_free_poisson.py [--space Cuda] [--dofs N] [--output poisson.png]

The stiffness operator of Q_p elements, p = 1 to 4, on a Cartesian mesh of the unit square and cube.
`parki.runtime` compiles the example's kernel, `examples/kernels/stiffness.py`, for CPUs and GPUs.
Elements with a common node add to the same value. This conflict is handled in four ways: by
atomics; by colouring, where elements of a colour have no common node; by a result for each thread;
and not at all, which is wrong but bounds the speed. A stored matrix (SciPy, CuPy) is timed as well.

Conjugate gradients show that the operator is correct: the error falls as h^(p + 1), or faster.

K. Ljungkvist, Matrix-free finite-element operator application on graphics processing units,
Euro-Par 2014 Workshops, LNCS 8806, 450-461.
"""

import argparse
import importlib.util
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.special import roots_jacobi

from parki.runtime import ExecutionSpace, get_execution_space, load
from parki.settings import thread_count

FILE = str(Path(__file__).parent / "kernels" / "stiffness.py")
DEGREES = (1, 2, 3, 4)
METHODS = ("atomics", "colouring", "private", "unprotected", "stored")
APPLICATIONS = 20  # timed together
MOST_ENTRIES = 150_000_000  # of a stored matrix
INK = "#1d1b2e"
COLOURS = dict(zip(METHODS, ("#c2703d", "#2b6a99", "#b89a3e", "#9a9a9a", "#7d9b5f"), strict=True))


class Poisson:
    """The stiffness operator on n elements along each axis, with values of zero at the boundary.

    Parameters
    ----------
    dimensions, degree, n : int
    space : ExecutionSpace
    """

    def __init__(self, dimensions: int, degree: int, n: int, space: ExecutionSpace) -> None:
        self.dimensions, self.degree, self.n, self.space = dimensions, degree, n, space
        self.xp = space.array_module
        self.points = (n * degree + 1,) * dimensions
        self.stiffness, self.mass, nodes = element(degree)
        h = 1 / n
        self.axis = np.unique((np.arange(n)[:, None] + nodes) * h)[: n * degree + 1]
        one = [self.mass * h] * dimensions
        self.local = sum(
            reduce(np.kron, [*one[:axis], self.stiffness / h, *one[axis + 1 :]])
            for axis in range(dimensions)
        )
        inside = np.zeros(self.points)
        inside[(slice(1, -1),) * dimensions] = 1
        self.inside = self.xp.asarray(inside.ravel())

    @property
    def size(self) -> int:
        """Number of degrees of freedom, including the boundary."""
        return math.prod(self.points)

    def operator(self, method: str) -> Callable[[Any, Any], None]:
        """Return ``apply(u, out)``, by one of `METHODS`; made once."""
        if method == "stored":
            matrix = self._matrix()
            if self.space.on_device:
                from cupyx.scipy.sparse import csr_matrix

                matrix = csr_matrix(matrix)

            def multiply(u: Any, out: Any) -> None:
                out[...] = matrix @ u

            return multiply
        return self._free(method)

    def _free(self, method: str) -> Callable[[Any, Any], None]:
        xp, degree, flat = self.xp, self.degree, self.dimensions == 2
        elements = np.array([1, self.n, self.n] if flat else [self.n] * 3, dtype=np.int32)
        nodes = np.array([1, *self.points] if flat else self.points, dtype=np.int32)
        constants = {"DEGREE": degree, "ATOMIC": method == "atomics"}
        if flat:
            constants["DX"] = 0
        kernel = load(FILE, "apply", self.space, PRIVATE=method == "private", **constants)
        numbers = np.arange(math.prod(elements), dtype=np.int32).reshape(elements)
        lists = [numbers.ravel()]
        if method == "colouring":
            parities = itertools.product(*(range(min(2, n)) for n in elements))
            lists = [numbers[tuple(slice(p, None, 2) for p in each)].ravel() for each in parities]
        threads = thread_count() if method == "private" else 1
        starts = np.linspace(0, numbers.size, threads + 1).astype(np.int32)
        parts = xp.empty((threads, self.size)) if threads > 1 else None
        given = {
            "elements": xp.asarray(elements),
            "nodes": xp.asarray(nodes),
            "local": xp.asarray(self.local),
            "starts": xp.asarray(starts),
        }
        lists = [xp.asarray(items) for items in lists]

        def apply(u: Any, out: Any) -> None:
            into = out.reshape(1, -1) if parts is None else parts
            into.fill(0)
            for items in lists:
                count = threads if method == "private" else items.size
                kernel(count, items=items, u=u, out=into, **given)
            if parts is not None:
                parts.sum(axis=0, out=out)
            out *= self.inside

        return apply

    def _matrix(self) -> sparse.csr_matrix:
        """Return the matrix, without the boundary's rows and columns."""
        stiffness, mass = self._along_axis
        whole = sum(
            reduce(sparse.kron, [stiffness if axis == k else mass for k in range(self.dimensions)])
            for axis in range(self.dimensions)
        )
        mask = sparse.diags(self.inside.get() if self.space.on_device else self.inside)
        return (mask @ whole @ mask).tocsr()

    @property
    def _along_axis(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Stiffness and mass matrix of one axis; their products make the matrix of all axes."""
        rows = (np.arange(self.n) * self.degree)[:, None] + np.arange(self.degree + 1)
        found = []
        for each in (self.stiffness * self.n, self.mass / self.n):
            index = np.broadcast_arrays(rows[:, :, None], rows[:, None, :])
            values = np.broadcast_to(each, index[0].shape).ravel()
            found.append(sparse.csr_matrix((values, [i.ravel() for i in index])))
        return found[0], found[1]

    @property
    def entries(self) -> int:
        """Number of entries of a stored matrix."""
        return self._along_axis[1].nnz ** self.dimensions

    def error(self, method: str) -> tuple[float, int]:
        """Solve for the product of exp(x) sin(pi x); return largest error and iterations."""
        grids = np.meshgrid(*[self.axis] * self.dimensions, indexing="ij")
        values = [np.exp(x) * np.sin(np.pi * x) for x in grids]
        bends = [
            np.exp(x) * (np.sin(np.pi * x) * (1 - np.pi**2) + 2 * np.pi * np.cos(np.pi * x))
            for x in grids
        ]
        exact = math.prod(values)
        # The right-hand side is f at the nodes times the mass matrix along each axis.
        right = -sum(
            math.prod([*values[:axis], bends[axis], *values[axis + 1 :]])
            for axis in range(self.dimensions)
        )
        for axis in range(self.dimensions):
            lines = np.moveaxis(right, axis, 0)
            product = self._along_axis[1] @ lines.reshape(len(lines), -1)
            right = np.moveaxis(product.reshape(lines.shape), 0, axis)
        found, steps = conjugate_gradients(
            self.operator(method), self.xp.asarray(right.ravel()) * self.inside
        )
        return float(abs(found - self.xp.asarray(exact.ravel())).max()), steps


def element(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return stiffness and mass of an element of length 1, and its Gauss-Lobatto nodes."""
    inner = roots_jacobi(degree - 1, 1, 1)[0] if degree > 1 else []
    nodes = np.concatenate([[-1], inner, [1]])
    x, weights = legendre.leggauss(degree + 1)
    series = np.linalg.inv(legendre.legvander(nodes, degree))  # a column for each basis function
    value = legendre.legval(x, series)
    slope = legendre.legval(x, legendre.legder(series))
    stiffness = 2 * (slope * weights) @ slope.T
    return stiffness, (value * weights) @ value.T / 2, (nodes + 1) / 2


def conjugate_gradients(apply: Callable[[Any, Any], None], b: Any) -> tuple[Any, int]:
    """Solve to a relative residual of 1e-10; return solution and iterations."""
    x, r, p, q = 0 * b, b.copy(), b.copy(), 0 * b
    square = first = float(r @ r)
    for step in range(10_000):
        if square <= 1e-20 * first:
            return x, step
        apply(p, q)
        alpha = square / float(p @ q)
        x += alpha * p
        r -= alpha * q
        square, before = float(r @ r), square
        p = r + square / before * p
    raise RuntimeError("conjugate gradients do not converge")


def elements_for(dimensions: int, degree: int, dofs: float) -> int:
    """Return the number of elements along an axis for about this many degrees of freedom."""
    return max(2, 2 * round((dofs ** (1 / dimensions) - 1) / degree / 2))


def measure(dimensions: int, degree: int, dofs: float, space: ExecutionSpace) -> dict[str, Any]:
    """Return degrees of freedom per second and seconds of setting up, by method."""
    problem = Poisson(dimensions, degree, elements_for(dimensions, degree, dofs), space)
    xp, rates, setups = problem.xp, {}, {}
    u = xp.asarray(np.random.default_rng(0).standard_normal(problem.size)) * problem.inside
    out, wait = xp.empty_like(u), space.adapter.synchronize
    for method in METHODS:
        stored, private = method == "stored", method == "private"
        if (stored and problem.entries > MOST_ENTRIES) or (private and space.on_device):
            continue
        begun = time.perf_counter()
        apply = problem.operator(method)
        setups[method] = time.perf_counter() - begun
        apply(u, out)
        seconds = []
        for _ in range(5):
            wait()
            begun = time.perf_counter()
            for _ in range(APPLICATIONS):
                apply(u, out)
            wait()
            seconds.append((time.perf_counter() - begun) / APPLICATIONS)
        rates[method] = problem.size / statistics.median(seconds)
    return {"dofs": problem.size, "rates": rates, "setups": setups}


def draw(found: dict[tuple[int, int], list[dict[str, Any]]], file: str, machine: str) -> None:
    """Draw rates over size, in two and three dimensions (his Figures 2 and 3)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    degrees = sorted({degree for _, degree in found})
    axes = sorted({dimensions for dimensions, _ in found})
    size = (2.9 * len(degrees), 2.9 * len(axes))
    figure, panels = plt.subplots(
        len(axes), len(degrees), figsize=size, layout="constrained", sharey="row", squeeze=False
    )
    for (dimensions, degree), rows in found.items():
        panel = panels[axes.index(dimensions)][degrees.index(degree)]
        for method in METHODS:
            line = [(row["dofs"], row["rates"][method]) for row in rows if method in row["rates"]]
            if line:
                panel.loglog(*zip(*line, strict=True), "o-", color=COLOURS[method], label=method)
        panel.set_title(f"{dimensions}-D, p = {degree}", loc="left", fontweight="bold")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(color="#e6e6e6")
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1][0].set_xlabel("degrees of freedom")
    panels[0][0].set_ylabel("degrees of freedom per second")
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(METHODS), frameon=False)
    figure.supxlabel(machine, fontsize=8, color="#777777", x=0.99, ha="right")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Check, measure, print and perhaps draw; return the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--space", default="CPU", help="CPU, Cuda, ...")
    parser.add_argument("--dofs", type=float, nargs="+", default=[3e3, 3e4, 3e5], help="sizes")
    parser.add_argument("--degrees", type=int, nargs="+", default=list(DEGREES))
    parser.add_argument("--output", default="poisson.png", help="picture; '' draws nothing")
    args = parser.parse_args(arguments)
    space, console = get_execution_space(args.space), Console(highlight=False)
    table = Table("", "p", "error, h", "error, h / 2", "order", "iterations", title="solved")
    orders = {}
    for dimensions, degree in itertools.product((2, 3), args.degrees):
        n = 16 if dimensions == 2 else 6
        problems = [Poisson(dimensions, degree, m, space) for m in (n, 2 * n)]
        (coarse, _), (fine, steps) = (problem.error("atomics") for problem in problems)
        orders[dimensions, degree] = math.log2(coarse / fine)
        order = f"{orders[dimensions, degree]:.2f}"
        table.add_row(
            f"{dimensions}-D", str(degree), f"{coarse:.1e}", f"{fine:.1e}", order, str(steps)
        )
    console.print(table)
    table = Table("", "p", "unknowns", *METHODS, title="million degrees of freedom per second")
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for dimensions, degree in itertools.product((2, 3), args.degrees):
        rows = [measure(dimensions, degree, dofs, space) for dofs in args.dofs]
        found[dimensions, degree] = rows
        for row in rows:
            rates = [row["rates"].get(method) for method in METHODS]
            words = ["" if rate is None else f"{rate / 1e6:.3g}" for rate in rates]
            table.add_row(f"{dimensions}-D", str(degree), f"{row['dofs']:,}", *words)
    console.print(table)
    if args.output and importlib.util.find_spec("matplotlib") is not None:
        draw(found, args.output, str(space))
        console.print(f"wrote {args.output}")
    return {"orders": orders, "rates": found}


if __name__ == "__main__":
    main()
