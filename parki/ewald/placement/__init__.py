"""What plans are made of: points that are placed once, and the sums that are placed at them.

asked        what a plan sums: one sum, or a composite
member       one sum, over columns of the points, with maps of densities and results
placement    all members of the same points, which move together
"""
