"""Hides the package ziglang; see `small_kernels.NO_ZIG`."""
