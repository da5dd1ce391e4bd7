"""`parki tune`: ``measure`` times stages, ``rounds`` until times agree, ``lengths`` transforms."""
