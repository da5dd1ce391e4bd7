"""Widths of charges and targets that are Gaussians, each of its own width: `take_widths`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.ewald.points.arguments import check_shape
from parki.ewald.sums import kernel, with_parameters
from parki.ewald.sums.blobs import BLOBS, OF_PAIRS
from parki.interchange import as_array, number, to_host
from parki.typing import AnyArray


def take_widths(
    name: Any,
    keywords: Mapping[str, Any],
    trg: AnyArray,
    src: AnyArray,
    norms: Any,
    options: EwaldOptions | None,
    *,
    in_boxes: bool = False,
) -> tuple[Any, Any, EwaldOptions | None, Any]:
    """Return the kernel of a sum's name and its parameters among keywords, which may be arrays.

    Then come its normals, or the squares of the widths of targets and sources; the options; and the
    other keywords. Systems ``in_boxes`` of their own have one width.

    Raises
    ------
    ParkiValueError, ParkiTypeError
    """
    epsilon: Any = keywords.get("epsilon", 0.0)
    if not isinstance(epsilon, tuple) and np.ndim(epsilon) == 0:
        kernel_name, others = with_parameters(name, keywords)
        return kernel_name, norms, options, others
    if isinstance(norms, EwaldOptions) and options is None:
        norms, options = None, norms
    others = {word: value for word, value in keywords.items() if word not in ("epsilon", "blob")}
    if name not in OF_PAIRS or norms is not None or keywords.get("blob", BLOBS[0]) != BLOBS[0]:
        raise ParkiValueError(
            f"epsilon is an array, which {name} does not take; Gaussian charges of several widths "
            "are for laplace and laplace_dipole, without normals"
        )
    refuse_boxes(in_boxes)
    if isinstance(epsilon, tuple) and len(epsilon) != 2:
        raise ParkiValueError(
            f"epsilon has {len(epsilon)} parts; expected widths of the sources, or of targets and "
            "of sources: (of_targets, of_sources)"
        )
    pair = epsilon if isinstance(epsilon, tuple) else (0.0, epsilon)
    points = [as_array("trg", trg), as_array("src", src)]
    for label, array in zip(("trg", "src"), points, strict=True):
        check_shape(label, array)
    of_each = [
        _checked(label, width, array)
        for label, width, array in zip(("targets", "sources"), pair, points, strict=True)
    ]
    soft = of_pairs(name, *map(_ends, of_each))
    squares = tuple(widths**2 for widths in of_each)
    return soft or name, squares if soft else None, options, others


def take_squares(
    name: Any,
    keywords: Mapping[str, Any],
    trg: AnyArray,
    src: AnyArray,
    norms: Any,
    options: EwaldOptions | None,
    *,
    in_boxes: bool,
    known: Callable[[AnyArray], AnyArray],
    like: Callable[[AnyArray, int], AnyArray],
    join: Callable[[list[AnyArray]], AnyArray],
) -> tuple[Any, Any, EwaldOptions | None, Any]:
    """Return `take_widths` for arrays of a library that differentiates the squares of widths.

    These are one array, of targets and then of sources.

    Parameters
    ----------
    known : callable
        Returns the values of widths as an array of NumPy.
    like : callable
        Returns widths, or one for a number of points, as an array of the library.
    join : callable
        Returns such arrays as one.
    """
    epsilon: Any = keywords["epsilon"]
    if not isinstance(epsilon, tuple) and np.ndim(epsilon) == 0:
        kernel_name, others = with_parameters(name, keywords)
        return kernel_name, norms, options, others
    pair = epsilon if isinstance(epsilon, tuple) else (0.0, epsilon)
    values = tuple(known(width) if np.ndim(width) else width for width in pair)
    dtype = np.float32 if "float32" in str(trg.dtype) else np.float64
    targets, sources = (np.broadcast_to(dtype(0), tuple(a.shape)) for a in (trg, src))
    named = {**keywords, "epsilon": values if isinstance(epsilon, tuple) else values[-1]}
    kernel, squares, options, others = take_widths(
        name, named, targets, sources, norms, options, in_boxes=in_boxes
    )
    if squares is not None:
        counts = (array.shape[-1] for array in (trg, src))
        squares = join([like(width, count) ** 2 for width, count in zip(pair, counts, strict=True)])
    return kernel, squares, options, others


def refuse_boxes(in_boxes: bool) -> None:
    """Refuse widths of each point for systems in boxes of their own."""
    if in_boxes:
        raise ParkiValueError(
            "epsilon is an array, which systems in boxes of their own do not take; give one width, "
            "or take one system after the other"
        )


def energies_of_pairs(points: AnyArray, epsilon: Any) -> tuple[str, str, Any]:
    """Return the sums of charges, and of their multipoles, at points of widths of their own.

    Last come the squares of the widths of targets and sources, which are the same.
    """
    widths = _checked("points", epsilon, points)
    ends, squares = _ends(widths), widths**2
    charges, multipoles = (of_pairs(name, ends, ends) for name in ("laplace", "multipoles"))
    if not charges:
        return "laplace", "multipoles(order=2)", None
    return charges, multipoles, (squares, squares)


def of_pairs(name: str, targets: tuple[float, ...], sources: tuple[float, ...]) -> str:
    """Return the sum whose pairs have widths of their own, or "" if all are points.

    `_ends` has the widths.
    """
    sums = {math.hypot(a, b) for a in targets for b in sources} - {0.0}
    if not sums:
        return ""
    more = {"order": 2} if name == "multipoles" else {}
    return kernel(OF_PAIRS[name], **more, narrowest=min(sums), widest=max(sums))


def _ends(widths: AnyArray) -> tuple[float, ...]:
    """Return 0 if there is such a width, the least other one, and the largest."""
    host = to_host(widths)
    positive = host[host > 0]
    ends = {float(positive.min()), float(positive.max())} if positive.size else set[float]()
    return (*({0.0} if positive.size < host.size or not host.size else ()), *ends)


def _checked(label: str, width: Any, points: AnyArray) -> AnyArray:
    """Return widths (N,) in the memory and dtype of the points, or refuse them."""
    count = points.shape[1]
    meaning = "a number, the width of a charge"
    if np.ndim(width) == 0:
        width = np.full_like(points[0], number("epsilon", width, meaning))
    widths = as_array("epsilon", width)
    if widths.shape != (count,):
        raise ParkiValueError(
            f"epsilon has shape {widths.shape} for {label}; expected ({count},), a width for each"
        )
    widths = np.asarray(widths, dtype=points.dtype, like=points)
    held = (widths == 0) | (widths**2 > np.finfo(points.dtype).tiny)
    if not bool((np.isfinite(widths**2) & (widths >= 0) & held).all()):
        raise ParkiValueError(
            f"epsilon has widths of {label} that are negative or not finite, or whose squares "
            f"{points.dtype} does not hold; expected the width of each in the unit of box, or 0 "
            "for a point"
        )
    return widths
