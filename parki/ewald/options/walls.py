"""What users write for walls and the mean flow between them, checked."""

from __future__ import annotations

from typing import Any

from parki.errors import ParkiValueError

WALLS = ("no-slip",)
MEAN_FLOWS = ("no-gradient", "no-flux")


def checked_walls(wall: Any) -> Any:
    """Return "no-slip" for one wall, a pair of them for two, or None.

    Raises
    ------
    ParkiValueError
    """
    pair = tuple(wall) if isinstance(wall, (tuple, list)) else (wall, None)
    known = all(one is None or (isinstance(one, str) and one in WALLS) for one in pair)
    if not known or len(pair) != 2:
        raise ParkiValueError(
            f"wall is {wall!r}; expected one of {', '.join(WALLS)}, or a pair of the lower and the "
            "upper wall, such as ('no-slip', 'no-slip') or ('no-slip', None)"
        )
    lower, upper = pair
    if lower is None and upper is not None:
        raise ParkiValueError(
            f"wall is {wall!r}, with an upper wall alone; a single wall is the lower one: turn "
            "points and densities upside down, and pass wall='no-slip'"
        )
    return lower if upper is None else (lower, upper)


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
    if not isinstance(wall, tuple):
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
            f"wall is {wall!r}, but box is {box!r}; the third length of the box is the distance of "
            "both walls: pass a number, such as box=[1, 1, 0.5]"
        )
