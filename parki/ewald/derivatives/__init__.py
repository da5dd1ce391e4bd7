"""Transposes and derivatives, which are sums again; a plan as a linear function of densities."""
