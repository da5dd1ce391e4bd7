"""Gradients, pressures and stresses of composites, by the same results of their sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Map, fixed, slopes, velocity
from parki.ewald.sums.record import Sum
from parki.ewald.sums.stress import stress

LONG = {"u": "", "p": "pressure of ", "grad_u": "gradient of ", "stress": "stress of "}


@fixed
def pressure(found: Arrays, at: Arrays) -> Any:
    """Return the pressure."""
    return found["p"]


# What results need of a sum, and the map that makes them of it.
OWN: dict[str, tuple[tuple[str, ...], Map]] = {
    "u": (("u",), velocity),
    "p": (("p",), pressure),
    "grad_u": (("grad_u",), gradient),
    "stress": (("p", "grad_u"), stress),
}


@dataclass(frozen=True)
class Slopes:
    """The gradient of a map of flows, which may change with the targets, too."""

    flow: Map

    def __call__(self, found: Arrays, at: Arrays) -> Any:
        """Return the gradient: row 3 j + k is the derivative of row j along axis k."""
        moved = slopes(self.flow, {"u": found["u"]}, at, "points")
        rows = [self.flow({"u": found["grad_u"][k::3]}, at) + moved[k] for k in range(3)]
        return np.stack(rows, axis=1).reshape(3 * len(rows[0]), -1)


def of_one(kind: Sum) -> Composite:
    """Return a sum as a composite."""
    result = () if kind.results == 1 else (kind.results,)
    addend = Addend(kind.name, ("u",), velocity)
    return Composite(kind.name, kind.density_shape(1)[:-1], result, (addend,))


def of_result(composite: Composite, want: str) -> Composite:
    """Return a result of a composite, a composite of results of the same sums.

    Raises
    ------
    ParkiValueError
        If a map of results stands between it and results that the sums have.
    """
    if want == "u":
        return composite
    shape = {"p": (), "grad_u": (*composite.result, 3), "stress": (3, 3)}[want]
    addends = tuple(_addend(each, want, composite.name) for each in composite.addends)
    name = LONG[want] + composite.name
    return replace(composite, name=name, result=shape, addends=addends, transposed=None)


def _addend(addend: Addend, want: str, name: str) -> Addend:
    needs, results = OWN[want]
    if addend.results is not velocity:
        if want != "grad_u" or addend.want != ("u",):
            raise ParkiValueError(
                f"want has {want!r}, but {name} makes its result of {', '.join(addend.want)} of "
                f"{addend.kernel} by a map; composites have gradients where maps take 'u' alone, "
                "and pressures and stresses where results are 'u' itself"
            )
        needs, results = ("u", "grad_u"), Slopes(addend.results)
    return replace(addend, want=needs, results=results)
