"""What plans are made of: points that are placed once, and the sums that are placed at them.

linear_map   a plan as a linear function, for frameworks
member       one sum, over columns of the points, with maps of densities and results
placement    all members of the same points, which move together
"""
