r"""Slow, accurate sums to test the solver against; nothing here is shared with it.

The kernels and their pressures, with r = target - source (no viscosity and no factor 8 pi; see
:func:`direct_sum`)::

    laplace        u = q / |r|
    stokes_sl      u = f / |r| + r (r.f) / |r|^3      p = 2 (r.f) / |r|^3
    stokes_dl      u = -6 r (r.q) (r.n) / |r|^5       p = 4 (q.n) / |r|^3 - 12 (r.q) (r.n) / |r|^5
    stokes_comb    both of the two above
    stokes_rotlet  u = curl(t / |r|) = t x r / |r|^3  p = 0
    stokes_dipole  u_i = sum_jk D_jk d/dy_k G_ij      p = 6 (r.D r) / |r|^5 - 2 tr D / |r|^3

with G the kernel of the single layer and y the source. The stress is -p I + grad u + (grad u)^T.

In free space (periodicity 0) the sum is formed as it stands. Otherwise it is split as Hasimoto
does, with psi(r) = xi/sqrt(pi) exp(-xi^2 r^2) and b(r) = r - B(r), B'' = 2 psi:

* The *near* part (`near`) adds the pairs, with all their images, closer than
  ``CUT / xi``.
* The *far* part (`far`) is a Fourier series in the periodic directions and a trapezoidal
  rule in the free ones, where the kernel is cut off at a radius that no pair reaches: the rule then
  converges spectrally, and the zero mode needs no special functions of each pair. No grid, window
  or FFT: sources enter through products of one function per direction, cos and sin along periodic
  directions and Chebyshev polynomials along free ones (Jacobi-Anger expansion of exp(-iky)), which
  makes the far part a few matrix products.

Double layers are summed as dipoles, D = -q n^T - n q^T, with sources of strength q.n besides.

Both are cut off at exp(-6.3^2) = 6e-18, so every field is good to about 1e-14 of its rms. `split`
has what the two parts share, and `direct` checks the arguments and adds them.
"""

from parki.reference.direct import direct_sum

__all__ = ["direct_sum"]
