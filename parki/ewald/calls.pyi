# What type checkers know of the calls that `parki.ewald.api.calls` makes. All modules with calls
# import this list, so it is wider than each of them: parki itself refuses ``comm`` without ranks,
# ``want`` in `parki.torch` and `parki.jax`, ``exclude`` in all of these, ``systems`` over ranks,
# and parameters of another sum.

from typing import Any, Protocol, overload

from typing_extensions import Unpack

from parki.ewald.options import EwaldOptions
from parki.typing import Array, ArrayT, ResultName, SumKeywords

class _Keywords(SumKeywords, total=False):
    comm: Any
    exclude: Any
    systems: Any
    boxes: Any
    periodicities: Any

class _Call(Protocol):
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
        **keywords: Unpack[_Keywords],
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
        **keywords: Unpack[_Keywords],
    ) -> tuple[ArrayT, ...]: ...

laplace: _Call
stokes_sl: _Call
stokes_dl: _Call
stokes_comb: _Call
stokes_rotlet: _Call
stokes_dipole: _Call
laplace_dipole: _Call
yukawa: _Call
brinkman_sl: _Call
brinkman_dl: _Call
