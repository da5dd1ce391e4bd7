"""Who does the work: what is placed, what is recorded, and what is kept for the next points.

`setup` is what box and parameters decide, `one_device` places points and applies the sum to a
density, `replay` records its launches as graphs, whose arrays have `slack`, and `plan_cache` keeps
set-ups between calls.
"""
