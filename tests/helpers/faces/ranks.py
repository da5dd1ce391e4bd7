"""Faces over several ranks: each rank has some of the points, and tests have all results."""

from __future__ import annotations

FACES = ()
