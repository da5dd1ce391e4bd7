"""Direct sums without the pairs of equal labels."""

from __future__ import annotations

import numpy as np

from parki.reference import direct_sum


def without_pairs(kernel, trg, src, dens, norms, labels, want, box, periodicity, image="nearest"):
    """Return direct sums; of pairs closer than 1e-6 at no distance, where none is singular."""
    lattice = np.diag(box) if np.ndim(box) == 1 else box
    numbers = np.array([*np.ndindex((7,) * periodicity)]) - 3
    shifts = (numbers @ lattice[:periodicity]).T

    def taken(targets):
        r = targets[:, :, None] - src[:, None]
        if image == "given":
            return r
        away = r[..., None] - shifts[:, None, None]
        nearest = (away**2).sum(axis=0).argmin(axis=-1)
        return np.take_along_axis(away, nearest[None, ..., None], axis=-1)[..., 0]

    same = (labels[0][:, None] == labels[1]) & (labels[0] >= 0)[:, None]
    close = same & ((taken(trg) ** 2).sum(axis=0) < 1e-12)
    target, source = np.nonzero(close)
    trg = trg.copy()
    trg[:, target] = src[:, source]
    how = {"box": box, "periodicity": periodicity, "want": want}
    found, r = direct_sum(kernel, trg, src, dens, norms, **how), taken(trg)
    for n, own in enumerate(same & ~close):
        normals = None if norms is None else norms[:, own]
        pairs = np.zeros((3, 1)), -r[:, n, own], dens[..., own], normals
        parts = direct_sum(kernel, *pairs, periodicity=0, want=want)
        for whole, part in zip(found, parts, strict=True):
            whole[..., n : n + 1] -= part
    return found
