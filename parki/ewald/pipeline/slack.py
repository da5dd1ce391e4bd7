"""`Slack`: memory for some more points than there are, so that their number may change.

Launches that were recorded have fixed sizes. Where points come and go, the columns beyond them are
the first points again, as sources without a density and as targets that nobody asks for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# One more column for each this many points; and the least part of all columns that points fill.
EACH, LEAST = 10, 0.8


class Slack(NamedTuple):
    """Columns for targets and sources, and whether normals are the sources'."""

    targets: int
    sources: int
    norms: bool = True

    @classmethod
    def of(cls, arrays: dict[str, Any], norms: bool = True) -> Slack:
        """Return the slack for arrays of points, by name: "trg", and "src" if they are others."""
        targets = arrays["trg"].shape[1]
        sources = arrays["src"].shape[1] if "src" in arrays else targets
        return cls(targets + -(-targets // EACH), sources + -(-sources // EACH), norms)

    def takes(self, arrays: dict[str, Any]) -> bool:
        """Return whether there is slack for other arrays, and not too much."""
        sizes = [(self._columns(name), array.shape[1]) for name, array in arrays.items()]
        return all(LEAST * columns <= n <= columns for columns, n in sizes)

    def points(self, xp: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return arrays of points, normals and tensor targets that fill the slack."""
        filled = {}
        for name, array in arrays.items():
            n, columns = array.shape[1], self._columns(name)
            filled[name] = xp.empty((len(array), columns), dtype=array.dtype)
            filled[name][:, :n] = array
            filled[name][:, n:] = array[:, : columns - n]
        return filled

    def densities(self, xp: Any, dens: Any) -> Any:
        """Return densities (k, rows, sources) that fill the slack."""
        filled = xp.zeros((*dens.shape[:-1], self.sources), dtype=dens.dtype)
        filled[..., : dens.shape[-1]] = dens
        return filled

    def results(self, xp: Any, results: dict[str, Any]) -> dict[str, Any]:
        """Return memory for results at all targets that there is slack for."""
        return {
            name: xp.empty((*array.shape[:-1], self.targets), dtype=array.dtype)
            for name, array in results.items()
        }

    def _columns(self, name: str) -> int:
        of_sources = name in ("src", "src_marks") or (name == "norms" and self.norms)
        return self.sources if of_sources else self.targets
