"""What users write for walls and the mean flow between them, checked."""

from __future__ import annotations

from typing import Any

from parki.errors import ParkiValueError
from parki.interchange import as_number, finite

WALLS = ("no-slip", "metal")
MEAN_FLOWS = ("no-gradient", "no-flux")
METAL = -1.0  # the image factor of metal


def checked_walls(wall: Any) -> Any:
    """Return one wall, a pair of them for two, or None.

    A wall is "no-slip", "metal", or the image factor of a dielectric, a float.

    Raises
    ------
    ParkiValueError
    """
    pair = tuple(wall) if isinstance(wall, (tuple, list)) else (wall, None)
    walls = [_checked_wall(one, wall) for one in pair]
    if len(walls) != 2:
        raise _unknown(wall)
    lower, upper = walls
    if lower is None and upper is not None:
        raise ParkiValueError(
            f"wall is {wall!r}, with an upper wall alone; a single wall is the lower one: turn "
            f"points and densities upside down, and pass wall={upper!r}"
        )
    if upper is not None and "no-slip" in (lower, upper) and lower != upper:
        raise ParkiValueError(
            f"wall is {wall!r}, of which one is for flows and one for charges; give two of a kind"
        )
    return lower if upper is None else (lower, upper)


def _checked_wall(one: Any, wall: Any) -> str | float | None:
    """Return a wall of those given."""
    if one is None or (isinstance(one, str) and one in WALLS):
        return one
    try:
        factor = as_number(one)
    except (TypeError, ValueError):
        raise _unknown(wall) from None
    if not -1 < factor < 1:
        raise ParkiValueError(
            f"wall is {wall!r}; an image factor is (e1 - e2) / (e1 + e2), e1 the permittivity "
            "between the walls and e2 beyond: expected a number between -1 and 1, or 'metal'"
        )
    return factor


def _unknown(wall: Any) -> ParkiValueError:
    return ParkiValueError(
        f"wall is {wall!r}; expected one of {', '.join(WALLS)}, the image factor of a dielectric, "
        "or a pair of the lower and the upper wall, such as ('no-slip', 'no-slip') or "
        "('metal', None)"
    )


def image_factors(wall: Any) -> tuple[float, ...]:
    """Return the image factor of each wall for charges; none of walls for flows."""
    walls = wall if isinstance(wall, tuple) else (wall,)
    if wall is None or "no-slip" in walls:
        return ()
    return tuple(METAL if one == "metal" else one for one in walls)


def checked_voltage(voltage: Any, wall: Any) -> float | None:
    """Return the voltage between two plates of metal, or None.

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If it is no number, or if there are no two such plates.
    """
    if voltage is None:
        return None
    checked = finite("voltage", voltage, "the potential of the upper plate, less the lower one's")
    if wall != ("metal", "metal"):
        raise ParkiValueError(
            f"voltage is {voltage!r}, but wall is {wall!r}; a voltage is between two plates of "
            "metal: pass wall=('metal', 'metal'), or leave voltage out"
        )
    return checked


def checked_mean_flow(mean_flow: Any, wall: Any) -> Any:
    """Return whether the fluid between two walls has no flux, as words for both axes, or None.

    Raises
    ------
    ParkiValueError
        If it is no such word, or if there are no two walls.
    """
    if mean_flow is None:
        return None
    one = isinstance(mean_flow, str)
    words = (mean_flow,) * 2 if one or not isinstance(mean_flow, (tuple, list)) else mean_flow
    if len(words) != 2 or not all(isinstance(w, str) and w in MEAN_FLOWS for w in words):
        raise ParkiValueError(
            f"mean_flow is {mean_flow!r}; expected one of {', '.join(MEAN_FLOWS)}, or two of them, "
            "for the first and the second axis"
        )
    if wall != ("no-slip", "no-slip"):
        raise ParkiValueError(
            f"mean_flow is {mean_flow!r}, but wall is {wall!r}; only two walls leave it open: pass "
            "wall=('no-slip', 'no-slip'), or leave mean_flow out"
        )
    return tuple(words)


def check_between(wall: Any, periodicity: Any, box: Any) -> None:
    """Refuse two walls without two periodic axes along them, or without their distance.

    Raises
    ------
    ParkiValueError
    """
    if periodicity != 2:
        raise ParkiValueError(
            f"wall is {wall!r}, but periodicity is {periodicity}; two walls need two periodic axes "
            "along them: choose periodicity 2, with a longer box where the flow is not periodic"
        )
    if box[2] is None:
        raise ParkiValueError(
            f"wall is {wall!r}, but box has no third length, which is the distance of both walls: "
            "pass a number, such as box=[1, 1, 0.5]"
        )
