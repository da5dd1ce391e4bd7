"""`vjp` and `jvp`: derivatives of a sum by its densities, normals, targets and sources.

Both are sums again. A kernel's record says which composites its derivatives are (`adjoints`,
`pulled` and `pushed`); this module sums them. See ``docs/derivatives.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from parki.errors import ParkiValueError
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
from parki.ewald.sums.composite import Addend, by_density, together
from parki.ewald.sums.maps import Arrays, mapped
from parki.ewald.sums.record import Sum
from parki.ewald.sums.slopes import MOVED_TARGETS, TARGETS, UNMOVED, Composites
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
    pushed = {"trg": MOVED_TARGETS, **asked.kind.pushed}
    if changes is not None:
        changes = _many(changes)
        asked.check_as_many("tangents['dens']", changes)
        found += asked.rows({"dens": UNMOVED}, changes, moves)["dens"][0]
    if "norms" in moves:
        found += asked.rows({"norms": pushed["norms"]}, many, moves)["norms"][0]
    if points := {name: pushed[name] for name in ("trg", "src") if name in moves}:
        for density, into in zip(many, found, strict=True):
            into += reduce(add, chain(*asked.rows(points, density[None], moves).values()))[0]
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

    def pulled(self, v: Any, dens: Any, wrt: Iterable[str]) -> dict[str, Any]:
        """Return the derivatives (k, rows, N) for values (k, rows, Nt).

        k is 1 unless ``wrt`` is ("dens",).
        """
        record = self.kind.adjoints["u"]
        pulled = {"dens": (record,), **self.kind.pulled}
        back = {name: addends for name, addends in pulled.items() if name in wrt}
        alone = record.transposed_pair and {*wrt} == {"dens"}
        pair = (self.kind.name, self.norms) if alone else None
        at = {"dens": dens, "norms": self.norms, "trg": self.trg, "src": self.src}
        found = self.rows(back, v, at, True, pair)
        if "trg" in wrt:
            found |= self.rows({"trg": TARGETS}, dens[None], {"dens": v[0]})
        return {name: reduce(add, rows) for name, rows in found.items()}

    def rows(
        self, of: Composites, dens: Any, at: Arrays, back: bool = False, pair: Any = None
    ) -> dict[str, list[Any]]:
        """Return the rows (k, rows, N) of composites' addends, for densities (k, rows, N).

        ``back`` is from the targets to the sources, and ``pair`` a `Request.transposed_pair`.
        """
        rows: dict[Addend, Any] = {}
        ends = (self.trg, self.src)[:: -1 if back else 1]
        own = self.kind.adjoints["u"].kernel if back else self.kind.name
        for shared in together(chain(*of.values()), own):
            kind, first, want = SUMS[shared.kernel], shared.addends[0], shared.want
            norms = mapped(first.normals, self.norms, at) if kind.normals else None
            tensors = next((each.tensors(at) for each in shared.addends if each.tensors), None)
            v = shared.densities(dens, at)
            shaped = v.reshape(len(v), *kind.density_shape(v.shape[-1]))
            given = kind.name, *ends, norms, self.options
            results = sum_once(given, shaped, want, tensors=tensors, transposed_pair=pair)
            found = by_density((*want, "transposed_pair") if pair else want, results)
            if back and self.options.dl_mean == "flux":
                for values, each in zip(v, found, strict=True):
                    mean = self.kind.adjoints["u"].add_mean
                    mean(each, values, at, self.options.box, tensors=tensors)
            rows |= shared.rows(found, at)
        return {name: [rows[each] for each in addends] for name, addends in of.items()}


def _many(values: Any) -> Any:
    """Return values (rows, N) or (k, rows, N) as (k, rows, N)."""
    return values if values.ndim == 3 else values[None]
