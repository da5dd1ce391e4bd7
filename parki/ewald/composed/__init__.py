"""Plans of composites: sums of sums, with their promise, adjoint, check and description."""
