"""What sources spread, and how modes of targets and sources pair in the far field of ``w.u``.

`parki.ewald.far.strain` differentiates it by strains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.sums.record import Interaction
from parki.typing import AnyArray


class Waves(NamedTuple):
    """Some modes.

    Attributes
    ----------
    k : list of 3 arrays
    square : array
        The square of k.
    multiplier : array
        The symbol's multiplier, twice as large for modes whose conjugates are left out.
    slope, curvature : array
        The multiplier, differentiated by the square of k along periodic directions, and twice.
    """

    k: list[Any]
    square: Any
    multiplier: Any
    slope: Any
    curvature: Any = None


def along(values: AnyArray, axis: int) -> Any:
    """Return a row of values that broadcasts along an axis of three."""
    return values.reshape([-1 if n == axis else 1 for n in range(3)])


class Parts(NamedTuple):
    """What sources spread, by the window itself: rows (n, N).

    A source is ``f + i S k - Q : k k - k^2 l`` at a mode, and has a strength as of
    ``kernels/symbols/flow.py``.
    """

    plain: Any
    tensors: Any  # S, a row of it after the other
    second: Any  # Q, as well
    strength: Any
    laplacian: Any  # l

    @property
    def ends(self) -> list[int]:
        """Where the parts begin and end, one after the other."""
        return [0, *np.cumsum([len(rows) for rows in self]).tolist()]


def parts_of(kind: Interaction, dens: AnyArray, norms: AnyArray, faxen_factor: Any = None) -> Parts:
    """Return the parts of sources; ``faxen_factor`` multiplies what is minus a Laplacian."""
    count, rows = dens.shape[-1], 1 if kind.symbol.structure == "scalar" else 3
    plain = np.zeros_like(dens, shape=(rows, count))
    tensors = np.zeros_like(dens, shape=(rows, 3 * kind.gradient, count))
    second = np.zeros_like(dens, shape=(rows, 9 * kind.curvature, count))
    strength = np.zeros_like(dens, shape=(0, count))
    for source, own in kind.parts(dens):
        if not source.gradient:
            plain += own
        elif source.curvature:
            second += own.reshape(rows, 9, count)
        elif source.normal:
            both = own[:, None] * norms[None]
            tensors += both + both.swapaxes(0, 1)
            strength = (own * norms).sum(axis=0)[None]
        else:
            tensors -= own.reshape(rows, 3, count)
    laplacian = plain[:0] if faxen_factor is None else plain * faxen_factor
    tensors, second = (each.reshape(-1, count) for each in (tensors, second))
    return Parts(plain, tensors, second, strength, laplacian)


def field_at(
    modes: Waves, plain: Any, tensors: AnyArray, second: AnyArray, laplacian: Any
) -> tuple[Any, list[Any] | None]:
    """Return the field of parts at modes, and its derivatives by the wave vector, if it has any."""
    if not any(map(len, (tensors, second, laplacian))):
        return plain, None
    slopes: list[Any] = [0.0] * 3
    if len(tensors):
        tensors = tensors.reshape((len(plain), 3, *plain.shape[1:]))
        plain = plain + 1j * sum(tensors[:, axis] * k for axis, k in enumerate(modes.k))
        slopes = [1j * tensors[:, axis] for axis in range(3)]
    if len(second):
        second = second.reshape((len(plain), 3, 3, *plain.shape[1:]))
        second = second + second.swapaxes(1, 2)
        moved = [sum(second[:, n, axis] * k for axis, k in enumerate(modes.k)) for n in range(3)]
        plain = plain - sum(each * k for each, k in zip(moved, modes.k, strict=True)) / 2
        slopes = [slope - each for slope, each in zip(slopes, moved, strict=True)]
    if len(laplacian):
        plain = plain - modes.square * laplacian
        slopes = [slope - 2 * k * laplacian for slope, k in zip(slopes, modes.k, strict=True)]
    return plain, slopes


class Pairing(NamedTuple):
    """What a symbol makes of a mode's values and fields, without the multiplier.

    Attributes
    ----------
    value : array
        Linear in both.
    by_values, by_fields : array
        Its derivatives by them.
    slopes : list of 3 arrays
        By the wave vector, for constant values and fields.
    """

    value: Any
    by_values: Any
    by_fields: Any
    slopes: list[Any]


def _scalar(modes: Waves, w: AnyArray, a: AnyArray, _: Any) -> Pairing:
    return Pairing((w * a).sum(axis=0), a, w, [0j * modes.square] * 3)


def _flow(modes: Waves, w: AnyArray, a: AnyArray, d: AnyArray) -> Pairing:
    k, square = modes.k, modes.square
    kw, ka = (sum(x * each for x, each in zip(k, of, strict=True)) for of in (w, a))
    if d is not None:
        ka = ka - 1j * square * d
    wa = (w * a).sum(axis=0)
    slopes = [2 * x * wa - w[n] * ka - kw * a[n] for n, x in enumerate(k)]
    if d is not None:
        slopes = [slope + 2j * x * kw * d for slope, x in zip(slopes, k, strict=True)]
    by_values, by_fields = (
        np.stack([square * of[n] - along * x for n, x in enumerate(k)])
        for of, along in ((a, ka), (w, kw))
    )
    return Pairing(square * wa - kw * ka, by_values, by_fields, slopes)


def _curl(modes: Waves, w: AnyArray, a: AnyArray, _: Any) -> Pairing:
    def cross(p: AnyArray, q: AnyArray) -> Any:
        each = [(n, (n + 1) % 3, (n + 2) % 3) for n in range(3)]
        return 1j * np.stack([p[m] * q[n] - p[n] * q[m] for _, m, n in each])

    by_fields = cross(w, modes.k)
    value = (by_fields * a).sum(axis=0)
    return Pairing(value, cross(modes.k, a), by_fields, [*cross(a, w)])


# By the files of ``kernels/symbols``.
SYMBOLS: dict[str, Callable[..., Pairing]] = {"scalar": _scalar, "flow": _flow, "curl": _curl}
