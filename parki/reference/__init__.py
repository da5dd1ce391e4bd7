r"""Slow, accurate sums for tests of the solver, which share no code with it.

The kernels and their pressures, with r = target - source (no viscosity and no factor 8 pi; see
:func:`direct_sum`)::

    laplace        u = q / |r|
    yukawa         u = q exp(-kappa |r|) / |r|
    stokes_sl      u = f / |r| + r (r.f) / |r|^3      p = 2 (r.f) / |r|^3
    stokes_dl      u = -6 r (r.q) (r.n) / |r|^5       p = 4 (q.n) / |r|^3 - 12 (r.q) (r.n) / |r|^5
    stokes_comb    sum of stokes_sl and stokes_dl
    stokes_rotlet  u = curl(t / |r|) = t x r / |r|^3  p = 0
    stokes_dipole  u_i = sum_jk D_jk d/dy_k G_ij      p = 6 (r.D r) / |r|^5 - 2 tr D / |r|^3

with G the kernel of the single layer and y the source. The stress is -p I + grad u + (grad u)^T.

In free space (periodicity 0) all pairs are added directly. Otherwise the sum is split as in
Hasimoto's work, with psi(r) = xi/sqrt(pi) exp(-xi^2 r^2) and b(r) = r - B(r), B'' = 2 psi:

* The *near* part (`near`) adds the pairs, with all their images, closer than
  ``CUT / xi``.
* The *far* part (`far`) is a Fourier series in the periodic directions and a trapezoidal rule in
  the free ones. There the kernel is cut off at a radius that no pair reaches, so that the rule
  converges spectrally and the zero mode needs no special functions of each pair. The far part uses
  no grid, window or FFT. Sources enter through products of one function per direction: cos and sin
  along periodic directions, Chebyshev polynomials along free ones (Jacobi-Anger expansion of
  exp(-iky)). The far part is therefore a few matrix products.

Double layers are summed as dipoles, D = -q n^T - n q^T, plus sources of strength q.n.

Both parts are cut off at exp(-6.3^2) = 6e-18, so every field is accurate to about 1e-14 of its
rms. `split` has their common parts, and `direct` checks the arguments and adds them.

`rigid_spheres` has two rigid spheres by series, and many of them by forces, torques and stresslets;
`walls` has one that moves towards a wall, `slit` forces between two of them, by modes, and `plates`
charges near metal and dielectrics.
"""

from parki.reference.direct import direct_sum
from parki.reference.plates import near_plates
from parki.reference.rigid_spheres import two_spheres
from parki.reference.slit import between_walls
from parki.reference.walls import drag_towards_wall

__all__ = ["between_walls", "direct_sum", "drag_towards_wall", "near_plates", "two_spheres"]
