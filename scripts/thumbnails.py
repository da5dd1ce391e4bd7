"""Cut the small pictures of docs/index.md from the manual's: the part that shows the problem.

python scripts/thumbnails.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps

IMAGES = Path(__file__).parents[1] / "docs/images"
SIZE, PAPER = (480, 300), "#fcfaf8"
# Left, top and width of what is shown, as parts of the picture's width and height. The height
# follows from the width.
PARTS = {
    "rigid_bodies": (0.529, 0.12, 0.345),
    "pipe": (0.31, 0.13, 0.47),
    "swimmers": (0.05, 0.3, 0.345),
    "sedimentation": (0.51, 0.1, 0.49),
    "settling": (0.062, 0.2, 0.345),
    "brownian": (0.0, 0.0, 1.0),
    "inverse": (0.392, 0.2, 0.3),
    "convergence": (0.755, 0.0, 0.245),
    "drops": (0.529, 0.25, 0.345),
    "sheared": (0.05, 0.22, 0.46),
    "poisson": (0.021, 0.05, 0.268),
    "finufft": (0.0, 0.0, 1.0),
    "falling": (0.085, 0.12, 0.36),
    "squirmers": (0.02, 0.2, 0.3),
    "rigid_spheres": (0.67, 0.2, 0.33),
    "capsule": (0.575, 0.13, 0.425),
}


def small(name: str) -> Image.Image:
    """Return the part of a picture that shows the problem."""
    picture = Image.open(IMAGES / f"{name}.png").convert("RGBA")
    paper = Image.new("RGBA", picture.size, "white")
    picture = Image.alpha_composite(paper, picture).convert("RGB")
    width, height = picture.size
    left, top, part = PARTS[name]
    across = part * width
    down = min(across * SIZE[1] / SIZE[0], (1 - top) * height)
    box = (left * width, top * height, left * width + across, top * height + down)
    cut = picture.crop(tuple(round(each) for each in box))
    cut = ImageOps.contain(cut, SIZE, Image.Resampling.LANCZOS)
    found = Image.new("RGB", SIZE, PAPER)
    found.paste(cut, ((SIZE[0] - cut.width) // 2, (SIZE[1] - cut.height) // 2))
    return found


def main() -> None:
    """Write all of them."""
    folder = IMAGES / "small"
    folder.mkdir(exist_ok=True)
    for name in PARTS:
        found = small(name)
        found.quantize(palette=found.quantize(128)).save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
