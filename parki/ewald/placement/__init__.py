"""What plans are made of: points that are placed once, and the sums that are placed at them.

linear_map    a plan as a linear function, for frameworks
term          one sum, over columns of the points, with maps of densities and results
placement     all sums of the same points, which move together
combination   the sums of one plan, whose results add up, and its transpose
"""
