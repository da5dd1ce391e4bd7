"""What near and far field have in common: the splits, the window, and the errors of both."""
