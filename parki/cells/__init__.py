"""Points sorted by the cells of a uniform partition of a box."""
