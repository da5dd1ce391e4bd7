"""Who does the work: what is placed, what is recorded, and what is kept for the next points.

`placed_sum` is what plans hold, and `protocol` the pipeline in it. `one_device` is one, made of
`stages`, `replay` and `crowding`: what is placed and recorded, and whether a set-up still suits.
`setup` is what box and parameters decide, `slack` the columns for more points, and `plan_cache`
keeps set-ups between calls.
"""
