"""`parki tune`: ``measure`` times stages; ``command`` has its output, and rounds that agree."""
