"""The far field: the grid, P2G, FGC and G2P, and what truncation and gauges add."""
