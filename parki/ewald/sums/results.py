"""Gradients, pressures and stresses of composites, by the same results of their sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Arrays, Map, after, pressure, slopes, velocity
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.stress import MADE
from parki.typing import AnyArray

LONG = {"u": "", "p": "pressure of ", "grad_u": "gradient of ", "stress": "stress of "}


# Each result of a sum, as an addend of the composite that it is alone.
RESULTS = {
    "u": Addend("", want=("u",), results=velocity),
    "p": Addend("", want=("p",), results=pressure),
    "grad_u": Addend("", want=("grad_u",), results=gradient),
    **MADE,
}


@dataclass(frozen=True)
class Slopes:
    """The gradient of a map of flows, which may change with the targets, too."""

    flow: Map

    def __call__(self, results: Arrays, cloud: Arrays) -> AnyArray:
        """Return the gradient: row 3 j + k is the derivative of row j along axis k."""
        moved = slopes(self.flow, {"u": results["u"]}, cloud, "points")
        rows = [self.flow({"u": results["grad_u"][k::3]}, cloud) + moved[k] for k in range(3)]
        return np.stack(rows, axis=1).reshape(3 * len(rows[0]), -1)


def of_one(kind: Interaction) -> Composite:
    """Return a sum as a composite."""
    result = () if kind.results == 1 else (kind.results,)
    return Composite(
        name=kind.name,
        density=kind.density,
        result=result,
        addends=(replace(RESULTS["u"], kernel=kind.name),),
    )


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
    addends = tuple(
        part for addend in composite.addends for part in _addends(addend, want, composite.name)
    )
    name = LONG[want] + composite.name
    return replace(composite, name=name, result=shape, addends=addends, transposed=None)


def _addends(addend: Addend, want: str, name: str) -> Iterator[Addend]:
    """Yield the addends of a result; the pressure may come from other sums."""
    needs, results = RESULTS[want].want, RESULTS[want].results
    if addend.results is not velocity:
        if want != "grad_u" or addend.want != ("u",):
            raise ParkiValueError(
                f"want has {want!r}, but {name} makes its result of {', '.join(addend.want)} of "
                f"{addend.kernel} by a map; composites have gradients where maps take 'u' alone, "
                "and pressures and stresses where results are 'u' itself"
            )
        needs, results = ("u", "grad_u"), Slopes(addend.results)
    others = SUMS[addend.kernel].pressure if "p" in needs else ()
    needs = tuple(need for need in needs if need != "p" or not others)
    if needs:
        yield replace(addend, want=needs, results=results)
    for other in others:
        pressed = other.results if want == "p" else partial(_pressed, other.results)
        density = after(addend.density, other.density)
        yield replace(
            addend, kernel=other.kernel, want=other.want, results=pressed, density=density
        )


def _pressed(pressure: Map, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the stress of a pressure alone."""
    pressed = pressure(results, cloud)
    rows = np.zeros_like(pressed, shape=(9, pressed.shape[-1]))
    rows[::4] = -pressed
    return rows
