"""One-shot calls: a plan used once, which leaves its pipeline for the next call like it."""

from __future__ import annotations

from typing import Any

from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once

# Normals and options have defaults, so that `Plan` says what is missing; and where there are no
# normals options may come fourth or fifth, as in `Plan`.
Want = str | tuple[str, ...]


def stokes_comb(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum the combined single and double layer of Stokes flow.

    ``u_i(x) = sum_s [ (delta_ij / r + r_i r_j / r^3) f_j  -  6 r_i (r.q) (r.n) / r^5 ]`` over all
    sources and their periodic images, ``r = x - y_s``. Velocity is the single layer over
    ``8 pi mu``, and the double layer over ``8 pi`` where q is a velocity; nothing is divided here.
    Kosmacher, Du, Bagge, Biros (2026), section 2.3.

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns), float32 or float64
        Targets and sources in the unit of ``options.box``; NumPy or CuPy. Not modified.
    dens : array, shape (6, Ns)
        Rows 0-2 the single layer's f, rows 3-5 the double layer's q.
    norms : array, shape (3, Ns)
        Normals n of the double layer.
    options : EwaldOptions
    want : {"u", "p", "grad_u", "stress"}, or a tuple of these
        The velocity; the pressure p of the same flow, ``grad p = laplace u`` between the sources,
        but ``grad p = laplace u - 8 pi (sum f) / V`` with three periodic directions, where the
        physical pressure is ``p + 8 pi (sum f . x) / V``; the gradient ``[i, j] = d u_i / d x_j``;
        the stress ``-p I + grad u + (grad u)^T``, whose product with a normal is the traction; or
        several of them. See ``docs/gauges.md``.

    Returns
    -------
    array, shape (3, Nt), (Nt,) or (3, 3, Nt), or a tuple of them in the order of ``want``
        Of the same kind as the inputs. See `Plan` for errors, and for many densities.
    """
    return sum_once(("stokes_comb", trg, src, norms, options), dens, want)


def stokes_sl(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum the single layer (Stokeslets): ``u = sum (I / r + r r^T / r^3) f``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns) and no normals, whose place ``options`` may
    take, as in `Plan`; ``p = sum 2 r.f / r^3``, from which three periodic directions leave the mean
    gradient out, ``8 pi (sum f) / V``.
    """
    return sum_once(("stokes_sl", trg, src, norms, options), dens, want)


def stokes_dl(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum the double layer (stresslets): ``u = sum -6 r (r.q) (r.n) / r^5``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns);
    ``p = sum 4 [ q.n / r^3 - 3 (r.q) (r.n) / r^5 ]``.
    """
    return sum_once(("stokes_dl", trg, src, norms, options), dens, want)


def stokes_rotlet(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum rotlets, the flow of torques t: ``u = sum t x r / r^3``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns) and no normals; the pressure is zero. With
    three periodic directions the mean velocity over the box is zero.
    """
    return sum_once(("stokes_rotlet", trg, src, norms, options), dens, want)


def stokes_dipole(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum dipoles D of forces: ``u_i = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``.

    As `stokes_comb`, with ``dens`` of shape (3, 3, Ns), ``dens[j, k] = D_jk``, and no normals:
    forces along axis j that are apart along axis k. ``u = sum [ D r - D^T r - (tr D) r ] / r^3 +
    3 r (r.D r) / r^5`` and ``p = sum [ 6 (r.D r) / r^5 - 2 (tr D) / r^3 ]``. Stresslets are the
    symmetric part, ``D = -(q n^T + n q^T)`` for a double layer with ``q.n = 0``; rotlets the
    antisymmetric one, ``D_ik = sum_j eps_ijk t_j / 2``. A multiple of the identity has no flow, and
    no pressure but in the source and, with three periodic directions, what keeps its mean zero.
    """
    return sum_once(("stokes_dipole", trg, src, norms, options), dens, want)


def laplace(
    trg: Any,
    src: Any,
    dens: Any,
    norms: Any = None,
    options: EwaldOptions | None = None,
    *,
    want: Want = "u",
) -> Any:
    """Sum point charges: ``phi = sum q / r``.

    As `stokes_comb`, with ``dens`` of shape (Ns,), no normals, and a result of shape (Nt,). With
    three periodic directions a uniform background neutralises the charges. ``want`` calls the
    potential "u" and its gradient, of shape (3, Nt), "grad_u".
    """
    return sum_once(("laplace", trg, src, norms, options), dens, want)
