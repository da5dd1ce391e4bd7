"""Where points are: the order of axes, the extent of the box, images, and systems of points."""
