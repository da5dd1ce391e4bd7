"""The choice of all parameters from a tolerance, with their cost and their memory."""
