"""`PaddedCapacity`: columns beyond the points, so that graphs fit a few more."""

from __future__ import annotations

from typing import Any, NamedTuple

from parki.typing import AnyArray, ArrayModule

# One more column for each this many points; and the least part of all columns that points fill.
EACH, LEAST = 10, 0.8


class PaddedCapacity(NamedTuple):
    """Columns for targets and sources.

    Launches that were recorded have fixed sizes. Where points come and go, the columns beyond them
    are the first points again, as sources without a density and as targets that nobody asks for.
    """

    targets: int
    sources: int

    @classmethod
    def of(cls, arrays: dict[str, AnyArray]) -> PaddedCapacity:
        """Return the slack for arrays of points, by name: "trg", and "src" if they are others."""
        targets = arrays["trg"].shape[1]
        sources = arrays["src"].shape[1] if "src" in arrays else targets
        return cls(targets + -(-targets // EACH), sources + -(-sources // EACH))

    def takes(self, arrays: dict[str, AnyArray]) -> bool:
        """Return whether there is slack for other arrays, and not too much."""
        sizes = [(self._columns(name), array.shape[1]) for name, array in arrays.items()]
        return all(LEAST * columns <= n <= columns for columns, n in sizes)

    def points(self, xp: ArrayModule, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Return arrays of points, normals and tensor targets that fill the slack."""
        filled = {}
        for name, array in arrays.items():
            n, columns = array.shape[1], self._columns(name)
            filled[name] = xp.empty((len(array), columns), dtype=array.dtype)
            filled[name][:, :n] = array
            filled[name][:, n:] = array[:, : columns - n]
        return filled

    def densities(self, xp: ArrayModule, dens: AnyArray) -> Any:
        """Return densities (k, rows, sources) that fill the slack."""
        filled = xp.zeros((*dens.shape[:-1], self.sources), dtype=dens.dtype)
        filled[..., : dens.shape[-1]] = dens
        return filled

    def results(self, xp: ArrayModule, results: dict[str, AnyArray]) -> dict[str, Any]:
        """Return memory for results at all targets that there is slack for."""
        return {
            name: array
            if name == "strain"  # has no targets
            else xp.empty((*array.shape[:-1], self.targets), dtype=array.dtype)
            for name, array in results.items()
        }

    def _columns(self, name: str) -> int:
        of_sources = name in ("src", "src_radii", "norms")
        return self.sources if of_sources else self.targets
