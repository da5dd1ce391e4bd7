"""Systems of points, which share a box or have boxes of their own, and their labels."""
