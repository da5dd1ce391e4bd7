"""One-shot calls: a plan used once, which leaves its pipeline for the next call like it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once
from parki.ewald.points import take_options
from parki.typing import Array, ArrayT, OptionKeywords, ResultName

if TYPE_CHECKING:
    from typing_extensions import Unpack

Result_co = TypeVar("Result_co", covariant=True)


class OneShot(Protocol):
    """A sum as a function: one array, or a tuple of arrays for a tuple of wanted results."""

    __name__: str

    @overload
    def __call__(
        self,
        trg: Array,
        src: Array,
        dens: ArrayT,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        want: ResultName = "u",
        **keywords: Unpack[OptionKeywords],
    ) -> ArrayT: ...
    @overload
    def __call__(
        self,
        trg: Array,
        src: Array,
        dens: ArrayT,
        norms: Array | EwaldOptions | None = None,
        options: EwaldOptions | None = None,
        *,
        want: tuple[ResultName, ...],
        **keywords: Unpack[OptionKeywords],
    ) -> tuple[ArrayT, ...]: ...


class PlainSum(Protocol[Result_co]):
    """A sum of `parki.torch` or `parki.jax` as a function, of the velocity or potential alone."""

    __name__: str

    def __call__(
        self,
        trg: Any,
        src: Any,
        dens: Any,
        norms: Any = None,
        options: EwaldOptions | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Result_co:
        """Return the sum."""


def sums_by(total: Callable[..., Any]) -> Callable[[Callable[[], None]], Any]:
    """Return what makes sums of functions that declare them, by their names and docstrings.

    ``total`` takes the name of a kernel, and then what the sums take.
    """
    _, *parameters = inspect.signature(total).parameters.values()
    signature = inspect.signature(total).replace(parameters=parameters)

    def declares(declared: Callable[[], None]) -> Any:
        # Normals and options have defaults, so that parki says what is missing.
        def call(
            trg: Any, src: Any, dens: Any, norms: Any = None, options: Any = None, **others: Any
        ) -> Any:
            return total(kernel, trg, src, dens, norms, options, **others)

        kernel = declared.__name__
        # What `inspect` and Sphinx show: what the sums take, and where that is written.
        call.__dict__.update(__signature__=signature, __wrapped__=total)
        for name in ("__doc__", "__module__", "__name__", "__qualname__"):
            setattr(call, name, getattr(declared, name))
        return call

    return declares


def _sum(
    kernel: str,
    trg: Array,
    src: Array,
    dens: Array,
    norms: Array | EwaldOptions | None = None,
    options: EwaldOptions | None = None,
    *,
    want: ResultName | tuple[ResultName, ...] = "u",
    **keywords: Unpack[OptionKeywords],
) -> Any:
    given = kernel, trg, src, *take_options(norms, options, keywords)
    return sum_once(given, dens, want)


_one_shot: Callable[[Callable[[], None]], OneShot] = sums_by(_sum)


@_one_shot
def stokes_comb() -> None:
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
        May take the place of ``norms`` for kernels without normals.
    **keywords
        The fields of `EwaldOptions`, instead of ``options``: ``periodicity=3, box=[1, 1, 1]``.
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


@_one_shot
def stokes_sl() -> None:
    """Sum the single layer (Stokeslets): ``u = sum (I / r + r r^T / r^3) f``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns) and no normals;
    ``p = sum 2 r.f / r^3``, from which three periodic directions leave the mean gradient out,
    ``8 pi (sum f) / V``.
    """


@_one_shot
def stokes_dl() -> None:
    """Sum the double layer (stresslets): ``u = sum -6 r (r.q) (r.n) / r^5``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns);
    ``p = sum 4 [ q.n / r^3 - 3 (r.q) (r.n) / r^5 ]``.
    """


@_one_shot
def stokes_rotlet() -> None:
    """Sum rotlets, the flow of torques t: ``u = sum t x r / r^3``.

    As `stokes_comb`, with ``dens`` of shape (3, Ns) and no normals; the pressure is zero. With
    three periodic directions the mean velocity over the box is zero.
    """


@_one_shot
def stokes_dipole() -> None:
    """Sum dipoles D of forces: ``u_i = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``.

    As `stokes_comb`, with ``dens`` of shape (3, 3, Ns), ``dens[j, k] = D_jk``, and no normals:
    forces along axis j that are apart along axis k. ``u = sum [ D r - D^T r - (tr D) r ] / r^3 +
    3 r (r.D r) / r^5`` and ``p = sum [ 6 (r.D r) / r^5 - 2 (tr D) / r^3 ]``. Stresslets are the
    symmetric part, ``D = -(q n^T + n q^T)`` for a double layer with ``q.n = 0``; rotlets the
    antisymmetric one, ``D_ik = sum_j eps_ijk t_j / 2``. A multiple of the identity has no flow, and
    no pressure but in the source and, with three periodic directions, what keeps its mean zero.
    """


@_one_shot
def laplace() -> None:
    """Sum point charges: ``phi = sum q / r``.

    As `stokes_comb`, with ``dens`` of shape (Ns,), no normals, and a result of shape (Nt,). With
    three periodic directions a uniform background neutralises the charges. ``want`` calls the
    potential "u" and its gradient, of shape (3, Nt), "grad_u".
    """


@_one_shot
def laplace_dipole() -> None:
    """Sum dipoles d of charges: ``phi = sum d.r / r^3``.

    As `laplace`, with ``dens`` of shape (3, Ns): charges of either sign that are apart along d.
    The flow of source doublets is minus its gradient. With three periodic directions the mean
    potential over the box is zero.
    """
