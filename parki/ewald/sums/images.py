"""What images of a window make of squared symbols, by how the window is differentiated."""

from __future__ import annotations

from typing import NamedTuple


class ImagePart(NamedTuple):
    """A part of the direction-averaged squared symbol of a window image.

    An image along the axis e replaces k by ``rho k + b e``, and k_e^2 by ``rho k_e^2 + c`` where
    the window is differentiated twice. The square is multiplied by ``rho^2`` plus the sum of these
    parts: ``factor * x * y * k_e**power``, over the power of k that leaves no unit.
    """

    factor: float
    pair: str  # x and y: "r" for rho, "b" or "c"
    power: int

    @property
    def over(self) -> int:
        """The number of factors k^2 that it is divided by."""
        return (sum(map("rbc".index, self.pair)) + self.power) // 2


ImageParts = tuple[ImagePart, ...]
PLAIN: ImageParts = ()


def one_shot(k_e: float, b2: float, axial: float = 0.0) -> ImageParts:
    """Return the parts ``rho b k_e``, ``b^2`` and ``b^2 k_e^2``, where one k is replaced."""
    parts = ImagePart(k_e, "rb", 1), ImagePart(b2, "bb", 0), ImagePart(axial, "bb", 2)
    return tuple(part for part in parts if part.factor)


def twice(tensor: float, along: float = 0.0, mixed: float = 0.0, slope: float = 0.0) -> ImageParts:
    """Return the parts where products of two k are replaced: A for k k, and v = rho k + b e for k.

    The squared symbol is ``tensor |A|^2 + along |A k|^2 + mixed v.A k + slope |v|^2`` for k = 1.
    """
    whole = tensor + along + mixed + slope
    t, a, m, s = (each / whole for each in (tensor, along, mixed, slope))
    parts = [
        ImagePart(4 * t + 4 * a + 3 * m + 2 * s, "rb", 1),
        ImagePart(-4 * t - 4 * a - 2 * m, "rb", 3),
        ImagePart(2 * t + a + m + s, "bb", 0),
        ImagePart(-2 * t - a - m, "bb", 2),
        ImagePart(2 * t + 2 * a + m, "rc", 2),
        ImagePart(t, "cc", 0),
        ImagePart(a, "cc", 2),
        ImagePart(2 * a + m, "bc", 1),
        ImagePart(-2 * a, "bc", 3),
    ]
    return tuple(part for part in parts if part.factor)


def reading(across: float, along: float, pressure: float, mixed: float = 0.0) -> ImageParts:
    """Return the parts of the gradient that a double layer of any directions q, n reads.

    It is ``q_j n_m (A_im u_j + A_ij u_m + v_i p delta_jm)``, of mean square ``2 |A|^2 |u|^2 +
    2 |A u|^2 + 4 v.A u p + 3 |v|^2 p^2``. Means over the sources are ``across`` of the square of u
    along each axis that is normal to k, ``along`` of that along k, and ``mixed`` of its product
    with p.
    """
    tensor = 2 * (2 * across + along) + 2 * across
    return twice(tensor, 2 * (along - across), 4 * mixed, 3 * pressure)


GRADIENT = one_shot(2, 1)  # |rho k + b e|^2
CURVATURE = twice(1)  # the squares of all products of two
LAYER = one_shot(8 / 7, 6 / 7, -2 / 7)
LAYER_OF_PRESSURE = one_shot(2, 1 / 2, 1 / 2)  # (|v|^2 + (v.k)^2 / k^2) / 2, v = rho k + b e
# u and p are k^2 f - k k.f and k.f of a force; of a doublet there is no p; of a layer they are
# k q.n + n k.q + q k.n - 2 k k.q k.n and 2 k.q k.n for k = 1.
READ_FORCE, READ_DOUBLET, READ_LAYER = reading(1, 0, 1), reading(1, 0, 0), reading(2, 3, 4, 2)
