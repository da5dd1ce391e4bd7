"""`vjp` and `jvp`: derivatives of a sum by its densities, normals, targets and sources.

Both are sums again. A kernel's record says what its derivatives are made of (`adjoints` and
`slopes`); this module combines them. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.derivatives.transpose import flat, mean_pressure
from parki.ewald.geometry.extent import Extent
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.points import (
    check_arguments,
    check_density,
    like_points,
    result_shape,
    take_options,
)
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.record import Sum
from parki.ewald.task import Frame, Task
from parki.interchange import as_given
from parki.runtime import ExecutionSpace
from parki.typing import AnyKernel, Array, ArrayT, InputName, OptionKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

INPUTS = ("trg", "src", "dens", "norms")


def vjp(
    kernel: AnyKernel,
    trg: Array,
    src: Array,
    dens: Array | None,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    values: ArrayT,
    wrt: tuple[InputName, ...] = ("dens",),
    **keywords: Unpack[OptionKeywords],
) -> dict[str, ArrayT]:
    """Return the derivatives of ``<values, u>``, u a sum, with respect to its inputs.

    Parameters
    ----------
    kernel, trg, src, norms, options, **keywords
        As for `Plan`. Targets that are sources, one object, have derivatives in both roles: add
        them up.
    dens : array
        The density of the sum, or k of them at once; may be None for derivatives with respect to
        densities alone.
    values : array, shape (3, Nt), or (Nt,) for Laplace
        Weights in the dtype and memory of the points; k comes first if there are k densities.
    wrt : tuple of {"dens", "norms", "trg", "src"}
        Inputs to differentiate with respect to.

    Returns
    -------
    dict of str to array
        The derivatives by the names of ``wrt``: in the shape of that argument and the library of
        ``values``. Derivatives with respect to normals and points are summed over k densities. For
        the errors see ``docs/derivatives.md``.

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
    norms, options = take_options(norms, options, keywords)
    asked = _Sum.checked(kernel, trg, src, dens, norms, options, "wrt", wrt)
    v = asked.like("values", values, "u")
    several, v = v.ndim == 3, _many(v)
    if {*wrt} == {"dens"}:
        parts = [asked.pulled(v, None, wrt)]
    else:
        asked.check_as_many("values", v)
        pairs = zip(v, asked.dens, strict=True)
        parts = [asked.pulled(each[None], density, wrt) for each, density in pairs]
    found: dict[str, Any] = {n: sum(part[n] for part in parts) for n in wrt if n != "dens"}
    shapes = dict(asked.shapes)
    if "dens" in wrt:
        found["dens"] = asked.space.array_module.concatenate([part["dens"] for part in parts])
        shapes["dens"] = (*v.shape[: 1 if several else 0], *shapes["dens"])
    return {name: as_given(found[name].reshape(shapes[name]), values) for name in wrt}


def jvp(
    kernel: AnyKernel,
    trg: Array,
    src: Array,
    dens: Array | None,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    tangents: dict[InputName, ArrayT],
    **keywords: Unpack[OptionKeywords],
) -> ArrayT:
    """Return the first-order change of a sum u for changes of its arguments.

    Parameters
    ----------
    kernel, trg, src, dens, norms, options, **keywords
        As for `vjp`.
    tangents : dict of str to array
        Changes of "dens", "norms", "trg", "src": in their shapes, in the dtype and memory of the
        points. Arguments left out do not change.

    Returns
    -------
    array
        The change, in the shape of the sum and the library of the first of ``tangents``.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, as for a plan.
    """
    norms, options = take_options(norms, options, keywords)
    asked = _Sum.checked(kernel, trg, src, dens, norms, options, "tangents", tangents)
    moves: dict[Any, Any]
    moves = {n: asked.like(f"tangents[{n!r}]", given, n) for n, given in tangents.items()}
    like, changes = next(iter(tangents.values())), moves.pop("dens", None)
    many = asked.dens if asked.dens is not None else _many(changes)
    xp, count = asked.space.array_module, asked.trg.shape[1]
    found = xp.zeros((len(many), asked.kind.results, count), dtype=asked.trg.dtype)
    if changes is not None:
        changes = _many(changes)
        asked.check_as_many("tangents['dens']", changes)
        found += asked.summed(kernel, "u", changes, asked.norms)
    if "norms" in moves:  # the sum is linear in them, as in q
        found += asked.summed(asked.kind.slopes.layer, "u", many[:, -3:], moves.pop("norms"))
    if moves:
        for density, into in zip(many, found, strict=True):
            into += asked.moved(density, moves)
    several = asked.several or (asked.dens is None and len(many) > 1)
    shape = asked.shapes["u"]
    result: ArrayT = as_given(found.reshape(*found.shape[: 1 if several else 0], *shape), like)
    return result


class _Sum(NamedTuple):
    """A sum whose arguments were checked: densities (k, rows, Ns), normals (3, Ns)."""

    kind: Sum
    options: EwaldOptions
    space: ExecutionSpace
    trg: Any
    src: Any
    dens: Any
    norms: Any
    several: bool = False

    @classmethod
    def checked(
        cls,
        kernel: str,
        trg: Any,
        src: Any,
        dens: Any,
        norms: Any,
        options: EwaldOptions,
        label: str,
        names: Iterable[str],
    ) -> _Sum:
        """Return the sum; refuse impossible arguments, and ``names`` of inputs that it lacks."""
        given = check_arguments(kernel, trg, src, norms, options)
        kind, arrays = SUMS[given.kernel], given.arrays
        inputs = INPUTS if kind.normals else INPUTS[:3]
        if isinstance(names, str) or not {*names} or not {*names} <= {*inputs}:
            raise ParkiValueError(
                f"{label} is {names!r}; expected names of inputs of {kernel}: {', '.join(inputs)}"
            )
        points = arrays["trg"], arrays["src"], None, arrays.get("norms")
        found = cls(kind, given.options.of_derivatives(), given.space, *points)
        if dens is None and {*names} == {"dens"}:
            return found
        values = found.like("dens", dens, "dens")
        return found._replace(dens=_many(values), several=values.ndim == 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs, and of the sum "u"."""
        targets, sources, name = self.trg.shape[1], self.src.shape[1], self.kind.name
        return {
            "trg": (3, targets),
            "src": (3, sources),
            "norms": (3, sources),
            "dens": self.kind.density_shape(sources),
            "u": result_shape(name, "u", targets),
        }

    def like(self, label: str, given: Any, name: str) -> Any:
        """Return an array of the shape of an input as (rows, N), or densities as (k, rows, N)."""
        values = like_points(label, given, self.space, self.trg.dtype)
        how: dict[str, Any] = {"of": "targets" if name in ("trg", "u") else "sources"}
        return check_density(label, values, self.shapes[name], several=name in ("dens", "u"), **how)

    def check_as_many(self, label: str, values: Any) -> None:
        """Refuse values (k, rows, N) whose number differs from the number of densities, if any."""
        if self.dens is not None and len(values) != len(self.dens):
            raise ParkiValueError(
                f"{label} has {len(values)} of them at once, but dens has {len(self.dens)}; "
                "expected as many"
            )

    def summed(self, kernel: str, want: str, dens: Any, norms: Any = None) -> Any:
        """Return a result (k, rows, Nt) of a sum over the same points."""
        shaped = dens.reshape(len(dens), *SUMS[kernel].density_shape(dens.shape[-1]))
        found = sum_once((kernel, self.trg, self.src, norms, self.options), shaped, want)
        return found.reshape(len(dens), *flat(found[0]).shape)

    def gradients(self, densities: Any) -> Any:
        """Return the gradients of the sum for densities, (k, results, 3, Nt)."""
        shape = len(densities), self.kind.results, 3, self.trg.shape[1]
        return self.summed(self.kind.name, "grad_u", densities, self.norms).reshape(shape)

    def pulled(self, v: Any, dens: Any, wrt: Iterable[str]) -> dict[str, Any]:
        """Return the derivatives for values (k, rows, Nt); k is 1 unless ``wrt`` is ("dens",)."""
        found = self._of_sources(v, dens, wrt)
        if "trg" in wrt:
            found["trg"] = (v[0][:, None] * self.gradients(dens[None])[0]).sum(axis=0)
        if "src" in wrt and self.kind.slopes.sources is None:
            found["src"] = self._by_targets(v[0], dens)
        return found

    def _by_targets(self, v: Any, dens: Any) -> Any:
        """Return the derivative by the sources, (3, Ns), from the gradient's adjoint.

        Moving a source is moving all targets the other way, along one axis at a time. A source's
        part of the change is its density times the adjoint of the gradient.
        """
        record, xp = self.kind.adjoints["grad_u"], self.space.array_module
        values = xp.zeros((3, len(v), 3, v.shape[1]), dtype=v.dtype)
        for axis in range(3):
            values[axis, :, axis] = v
        shaped = values.reshape(3, *SUMS[record.kernel].density_shape(v.shape[1]))
        given = record.kernel, self.src, self.trg, None, self.options
        pairs = list(zip(record.want, sum_once(given, shaped, record.want), strict=True))
        adjoints = ({name: flat(array[axis]) for name, array in pairs} for axis in range(3))
        return -xp.stack([(dens * record.density(n, self.norms)).sum(axis=0) for n in adjoints])

    def _of_sources(self, v: Any, dens: Any, wrt: Iterable[str]) -> dict[str, Any]:
        """Return the derivatives with respect to density, normals, and place of the sources."""
        record, slopes, xp = self.kind.adjoints["u"], self.kind.slopes, self.space.array_module
        want: tuple[str, ...] = record.want if {"dens", "norms"} & {*wrt} else ()
        if "src" in wrt:
            want += tuple(name for name in slopes.want if name not in want)
        if not want:
            return {}
        tensors = None
        if "src" in wrt and slopes.tensors is not None:
            tensors = slopes.tensors(dens, self.norms)
        shaped = v.reshape(len(v), *SUMS[record.kernel].density_shape(v.shape[-1]))
        transposed = record.kernel, self.src, self.trg, None, self.options
        whole = record.transposed_pair and {*wrt} == {"dens"}
        pair = (self.kind.name, self.norms) if whole else None
        names = (*want, "transposed_pair") if pair else want
        found = sum_once(transposed, shaped, want, tensors=tensors, transposed_pair=pair)
        results = zip(names, found, strict=True)
        each = {name: array.reshape(len(v), *flat(array[0]).shape) for name, array in results}
        if record.mean is not None and self.options.dl_mean == "flux":
            for place, values in enumerate(v):
                self._add_mean(record, values, {n: a[place] for n, a in each.items()}, tensors)
        found = {}
        if "dens" in wrt:
            many = [{n: a[place] for n, a in each.items()} for place in range(len(v))]
            found["dens"] = xp.stack([record.density(n, self.norms) for n in many])
        first = {name: array[0] for name, array in each.items()}
        if "norms" in wrt and slopes.normals is not None:
            found["norms"] = slopes.normals(first, dens)
        if "src" in wrt and slopes.sources is not None:
            found["src"] = slopes.sources(first, dens)
        return found

    def _add_mean(self, record: Adjoint, v: Any, found: dict[str, Any], tensors: Any) -> None:
        """Add the pressure of a layer without net flux, and what tensor targets read of it."""
        arrays = {"trg": self.trg, "src": self.src}
        box = Extent(np.zeros(3), np.array(self.options.box, dtype=np.float64))
        task = Task(record.kernel, self.space, self.trg.dtype, self.options)
        slope, pressure = mean_pressure(task, Frame.of(task, box), arrays, record, v)
        found["p"] += pressure
        if tensors is not None:
            found["grad_tensor"] += tensors[-1] * slope

    def moved(self, dens: Any, moves: dict[str, Any]) -> Any:
        """Return the change of the sum as targets and sources move, (results, Nt)."""
        xp, moved = self.space.array_module, self.kind.slopes.displacement
        found = xp.zeros((self.kind.results, self.trg.shape[1]), dtype=self.trg.dtype)
        densities = [dens] if "trg" in moves else []
        if "src" in moves and moved is None:
            densities += [dens * row for row in moves["src"]]
        gradients = list(self.gradients(xp.stack(densities))) if densities else []
        if "trg" in moves:
            found += (gradients.pop(0) * moves["trg"]).sum(axis=1)
        # A pair does not change if both of its points move by the same vector.
        for axis, gradient in enumerate(gradients):
            found -= gradient[:, axis]
        if "src" in moves and moved is not None:
            density = moved.density(dens, moves["src"])
            found += moved.factor * self.summed(moved.kernel, moved.want, density[None])[0]
        return found


def _many(values: Any) -> Any:
    """Return values (rows, N) or (k, rows, N) as (k, rows, N)."""
    return values if values.ndim == 3 else values[None]
