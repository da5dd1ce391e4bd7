"""The near field: P2P over sorted points, its variants, tiles and lists of pairs."""
