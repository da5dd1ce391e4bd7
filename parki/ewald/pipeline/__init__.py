"""Who does the work: what is placed, what is recorded, and what is kept for the next points.

`ewald_sum` is what plans hold; `protocol` the pipeline in it, and the memory that calls share.
`one_device` is a pipeline, made of `stages` and `replay`: what is placed and recorded. `setup` is
what box and parameters decide, and `arrival` says whether it still suits.
"""
