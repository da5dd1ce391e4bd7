"""`parki tune`: ``measure`` times stages and ``lengths`` transforms; ``command`` shows both."""
