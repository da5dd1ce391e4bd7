"""Draw how a kernel fades along a free axis, for "Free axes" of docs/theory.md.

python scripts/draw_fading.py [FILE]    # default docs/images/fading.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import erfc

FILE = Path(__file__).parents[1] / "docs" / "images" / "fading.png"
EDGE, CUTOFF, WIDTH, STEEPNESS = 1.0, 0.25, 0.6, 2.5
KEPT = EDGE + CUTOFF
PERIOD = 2 * KEPT + WIDTH  # of the transform
PLAIN, FADING, COPY = "0.55", "#1f6f8b", "#c4622d"


def kernel(x: np.ndarray) -> np.ndarray:
    """Return the kernel of a mollified source."""
    return 0.3 / np.hypot(x, 0.3)


def chi(x: np.ndarray) -> np.ndarray:
    """Return 1 up to where the kernel is kept, and 0 a width beyond."""
    t = 2 * (np.abs(x) - KEPT) / WIDTH - 1
    return erfc(STEEPNESS * t) / 2


def main(file: Path) -> None:
    """Draw the kernel, its copy one transform away, and what both do to pairs."""
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    x = np.linspace(-1.1 * EDGE, PERIOD + 1.1 * EDGE, 1500)
    axes.axvspan(-EDGE, EDGE, color=FADING, alpha=0.12, lw=0)
    axes.axvspan(KEPT, KEPT + WIDTH, color=COPY, alpha=0.14, lw=0)
    axes.plot(x, kernel(x), ":", color=PLAIN, label="kernel that does not fade")
    axes.plot(x, kernel(x) * chi(x), color=FADING, label="kernel that fades")
    away = x - PERIOD
    axes.plot(x, kernel(away) * chi(away), "--", color=COPY, label="its copy")
    places = {0: "0", EDGE: "L", KEPT: r"L + $r_c$", KEPT + WIDTH: r"L + $r_c$ + w", PERIOD: "W"}
    axes.set_xticks([*places], [*places.values()])
    axes.text(0, 1.06, "all pairs of points", ha="center")
    axes.text(KEPT + WIDTH / 2, 0.5, "both\nfade", ha="center")
    axes.set(xlim=(x[0], x[-1]), ylim=(0, 1.18), yticks=[], xlabel="distance along the free axis")
    axes.legend(loc="upper left", bbox_to_anchor=(0.555, 0.98), fontsize=8.5, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
