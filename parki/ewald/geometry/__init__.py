"""Where points are: the extent of the box, their images, and the systems that they belong to."""
