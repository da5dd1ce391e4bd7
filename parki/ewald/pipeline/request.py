"""`Request`: what the rest of parki asks of a sum beside the public arguments of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A density to sum at once, and what derivatives need; by default nothing.

    Attributes
    ----------
    once : bool
        Whether a density is summed at once: it is checked along with the rest, before any work. On
        a device its near field runs while the far field is set up. No lists of pairs are kept.
    density : array
        That density.
    probes : array, shape (10, Nt), optional
        Of the targets of a single layer: a tensor D, row 3 j + k of which is D_jk, and a strength
        s. They read ``D_jk d u_j / d x_k + s p``, whose gradient, of shape (3, Nt), ``want`` then
        can call "grad_probe": what the sources of `parki.vjp` feel.
    turned : tuple (str, array or None), optional
        A kernel whose transpose the sum is the far field of, and normals of the targets, shape
        (3, Nt), if it has any. The near field is that transpose's own, and comes after what is
        wanted, as one more result of the shape of the kernel's density, (rows, Nt).
    """

    once: bool = False
    density: Any = None
    probes: Any = None
    turned: tuple[str, Any] | None = None
