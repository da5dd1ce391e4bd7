"""The box: `box` has `Lattice`, `cell` what users write for it, `enclosed` the boxes of systems."""

from parki.ewald.lattice.box import ENCLOSING, LOOSE, LOOSEST, NONE, Lattice, check_length
from parki.ewald.lattice.cell import (
    Cell,
    Moving,
    Standing,
    cell_of,
    lattice,
    rows_of,
    straight,
    whole_of,
)
from parki.ewald.lattice.enclosed import Enclosed

__all__ = [
    "ENCLOSING",
    "LOOSE",
    "LOOSEST",
    "NONE",
    "Cell",
    "Enclosed",
    "Lattice",
    "Moving",
    "Standing",
    "cell_of",
    "check_length",
    "lattice",
    "rows_of",
    "straight",
    "whole_of",
]
