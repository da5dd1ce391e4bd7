"""Cases of `scripts/benchmark.py` that ask parki's own questions."""
