"""`vjp` and `jvp`: derivatives of a sum by its densities, normals, targets and sources.

Both are sums again. What a kernel's derivatives are made of stands in its record (`adjoints` and
`slopes`); here they are put together. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.adjoint import mean_pressure
from parki.ewald.extent import Extent
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan, sum_once
from parki.ewald.points import check_arguments, check_density, check_space, result_shape
from parki.ewald.sums import SUMS
from parki.ewald.sums.record import Kernel
from parki.ewald.task import Frame, Task
from parki.interchange import as_array, as_given
from parki.runtime import ExecutionSpace

INPUTS = ("trg", "src", "dens", "norms")


def vjp(
    kernel: str,
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    values: Any,
    wrt: tuple[str, ...] = ("dens",),
) -> dict[str, Any]:
    """Return the derivatives of ``<values, u>``, u a sum, by what it depends on.

    Parameters
    ----------
    kernel, trg, src, norms, options
        As for `Plan`. Targets that are sources, one object, have derivatives in both roles: add
        them up.
    dens : array
        The density of the sum; may be None where derivatives by densities alone are asked for.
    values : array, shape (3, Nt), or (Nt,) for Laplace
        In the dtype and memory of the points.
    wrt : tuple of {"dens", "norms", "trg", "src"}
        Which derivatives.

    Returns
    -------
    dict of str to array
        By the names of ``wrt``: of the shape of that argument, in the library of ``values``. Errors
        are those of the sums that they are made of: see ``docs/derivatives.md``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.

    Examples
    --------
    >>> import numpy as np, parki
    >>> rng = np.random.default_rng(0)
    >>> points, forces, values = rng.random((3, 3, 1000))
    >>> options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1])
    >>> given = ("stokes_sl", points, points, forces, options)
    >>> found = parki.vjp(*given, values=values, wrt=("dens", "trg", "src"))
    >>> found["dens"].shape
    (3, 1000)
    """
    asked = _Sum.checked(kernel, trg, src, dens, norms, options, "wrt", wrt)
    v = asked.like("values", values, asked.shape, "targets")
    found = asked.pulled(v, wrt)
    if "trg" in wrt:
        (gradient,) = asked.gradients([asked.dens])
        found["trg"] = (v[:, None] * gradient).sum(axis=0)
    return {name: as_given(found[name].reshape(asked.shapes[name]), values) for name in wrt}


def jvp(
    kernel: str,
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    tangents: dict[str, Any],
) -> Any:
    """Return by how much a sum u changes, to first order, as its arguments do.

    Parameters
    ----------
    kernel, trg, src, dens, norms, options
        As for `vjp`.
    tangents : dict of str to array
        Changes of "dens", "norms", "trg", "src": of their shapes, in the dtype and memory of the
        points. What is left out does not change.

    Returns
    -------
    array
        As the sum, in the library of the first of ``tangents``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.
    """
    asked = _Sum.checked(kernel, trg, src, dens, norms, options, "tangents", tangents)
    moves = {}
    for name, given in tangents.items():
        of = "targets" if name == "trg" else "sources"
        moves[name] = asked.like(f"tangents[{name!r}]", given, asked.shapes[name], of)
    found = asked.moved(moves)
    if "dens" in moves:
        found += asked.summed(kernel, "u", moves["dens"], asked.norms)
    if "norms" in moves:  # to which q is what they are to q
        found += asked.summed(asked.kind.slopes.layer, "u", asked.dens[-3:], moves["norms"])
    return as_given(found.reshape(asked.shape), next(iter(tangents.values())))


class _Sum(NamedTuple):
    """A sum whose arguments were checked; densities and normals have shape (rows, Ns)."""

    kind: Kernel
    options: EwaldOptions
    space: ExecutionSpace
    trg: Any
    src: Any
    dens: Any
    norms: Any

    @classmethod
    def checked(
        cls,
        kernel: str,
        trg: Any,
        src: Any,
        dens: Any,
        norms: Any,
        options: EwaldOptions | None,
        label: str,
        names: Iterable[str],
    ) -> _Sum:
        """Return the sum; refuse impossible arguments, and ``names`` of what it does not have."""
        if isinstance(norms, EwaldOptions) and options is None:
            norms, options = None, norms
        given = check_arguments(kernel, trg, src, norms, options)
        kind, arrays = SUMS[kernel], given.arrays
        inputs = INPUTS if kind.double else INPUTS[:3]
        if isinstance(names, str) or not {*names} or not {*names} <= {*inputs}:
            raise ParkiValueError(
                f"{label} is {names!r}; expected names of inputs of {kernel}: {', '.join(inputs)}"
            )
        plain = given.options.of_derivatives()
        found = cls(
            kind, plain, given.space, arrays["trg"], arrays["src"], None, arrays.get("norms")
        )
        if dens is None and {*names} == {"dens"}:
            return found
        return found._replace(dens=found.like("dens", dens, found.shapes["dens"]))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        return result_shape(self.kind.name, "u", self.trg.shape[1])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each input."""
        count = self.src.shape[1]
        points = {"trg": self.trg.shape, "src": self.src.shape, "norms": (3, count)}
        return {**points, "dens": self.kind.density_shape(count)}

    def like(self, name: str, given: Any, shape: tuple[int, ...], of: str = "sources") -> Any:
        """Return an array of some shape as (rows, N), in dtype and memory of the points."""
        values = as_array(name, given)
        check_space({name: values}, self.space)
        if values.dtype != self.trg.dtype:
            raise ParkiTypeError(
                f"{name} has dtype {values.dtype}, but the points have {self.trg.dtype}; "
                "convert one"
            )
        return check_density(name, values, shape, of=of)

    def summed(self, kernel: str, want: str, dens: Any, norms: Any = None) -> Any:
        """Return a result of a sum over the same points, (rows, Nt)."""
        dens = dens.reshape(SUMS[kernel].density_shape(dens.shape[1]))
        found = sum_once(kernel, self.trg, self.src, dens, norms, self.options, want)
        return found.reshape(-1, found.shape[-1])

    def gradients(self, densities: list[Any]) -> list[Any]:
        """Return the gradients of the sum for some densities, (results, 3, Nt) each."""
        name, shape = self.kind.name, (self.kind.results, 3, self.trg.shape[1])
        if len(densities) == 1:
            return [self.summed(name, "grad_u", densities[0], self.norms).reshape(shape)]
        plan = Plan(name, self.trg, self.src, self.norms, self.options, want="grad_u")
        together = self.space.array_module.stack(densities)
        found = plan(together.reshape(len(densities), *self.shapes["dens"]))
        return list(found.reshape(len(densities), *shape))

    def pulled(self, v: Any, wrt: Iterable[str]) -> dict[str, Any]:
        """Return the derivatives by what sources have: density, normals, and place."""
        record, slopes = self.kind.adjoints["u"], self.kind.slopes
        want: tuple[str, ...] = record.want if {"dens", "norms"} & {*wrt} else ()
        if "src" in wrt:
            want += tuple(name for name in slopes.want if name not in want)
        if not want:
            return {}
        probes = None
        if "src" in wrt and slopes.probes is not None:
            probes = slopes.probes(self.dens, self.norms)
        shaped = v.reshape(SUMS[record.kernel].density_shape(v.shape[1]))
        exchanged = record.kernel, self.src, self.trg, shaped, None, self.options, want
        results = zip(want, sum_once(*exchanged, probes=probes), strict=True)
        found = {name: array.reshape(-1, array.shape[-1]) for name, array in results}
        if record.mean is not None and self.options.dl_mean == "flux" and "p" in found:
            arrays = {"trg": self.trg, "src": self.src}
            task = Task(record.kernel, self.space, self.trg.dtype, self.options)
            frame = Frame.of(task, _box(self.options))
            slope, pressure = mean_pressure(task, frame, arrays, record, v)
            found["p"] += pressure
            if probes is not None:
                found["grad_probe"] += probes[-1] * slope
        of_sources = {}
        if "dens" in wrt:
            of_sources["dens"] = self.space.array_module.concatenate(record.rows(found, self.norms))
        if "norms" in wrt and slopes.normals is not None:
            of_sources["norms"] = slopes.normals(found, self.dens)
        if "src" in wrt:
            of_sources["src"] = slopes.sources(found, self.dens)
        return of_sources

    def moved(self, moves: dict[str, Any]) -> Any:
        """Return by how much the sum changes as targets and sources move, (results, Nt)."""
        count, moved = self.trg.shape[1], self.kind.slopes.moved
        found = self.space.array_module.zeros((self.kind.results, count), dtype=self.trg.dtype)
        densities = [self.dens] if "trg" in moves else []
        apart = moves.get("src") if moved is None else None
        if apart is not None:
            densities += [self.dens * row for row in apart]
        gradients = self.gradients(densities) if densities else []
        if "trg" in moves:
            found += (gradients.pop(0) * moves["trg"]).sum(axis=1)
        # A pair does not change if both of its points move alike.
        for axis, gradient in enumerate(gradients):
            found -= gradient[:, axis]
        if "src" in moves and moved is not None:
            density = moved.density(self.dens, moves["src"])
            found += moved.factor * self.summed(moved.kernel, moved.want, density)
        return found


def _box(options: EwaldOptions) -> Extent:
    """Return a box whose lengths are all given."""
    return Extent(np.zeros(3), np.array(options.box, dtype=np.float64))
