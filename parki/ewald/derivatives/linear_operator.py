"""A plan as a linear operator on flattened densities: see `Plan.as_linear_operator`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.ranks import Ranks
from parki.interchange import as_array, to_host
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray

Shape = tuple[int, ...]


def linear_operator(
    apply: Callable[[AnyArray], AnyArray],
    adjoint: Callable[[AnyArray], AnyArray],
    shapes: tuple[Shape, Shape],
    dtype: DTypeLike,
    space: ExecutionSpace,
    ranks: Ranks = SERIAL,
) -> Any:
    """Return an operator of SciPy on the host, of CuPy on a device.

    Over ranks it is of the arrays of all ranks, one after the other along their last axis. Each
    rank brings the same whole vector, bit for bit, as the same solver on each of them does;
    otherwise a product raises a `ParkiValueError` on all ranks.

    Parameters
    ----------
    apply, adjoint : callable
        A plan, and its adjoint.
    shapes : tuple of 2
        The shapes of a result and of a density, on this rank.
    dtype : dtype
        Dtype of the plan.
    space : ExecutionSpace
    ranks : Ranks, optional
        Default: this process alone.
    """
    result, density = (End.of(shape, ranks) for shape in shapes)
    forward = Product(
        call=apply, name="dens", dtype=dtype, ranks=ranks, outer=result, inner=density
    )
    back = Product(
        call=adjoint, name="values", dtype=dtype, ranks=ranks, outer=density, inner=result
    )
    return _operator(forward, back, space, ranks)


def _operator(forward: Product, back: Product, space: ExecutionSpace, ranks: Ranks) -> Any:
    """Return the operator of a product and of its transpose."""
    kind = space.adapter.linear_operator()
    operator = kind(
        (math.prod(forward.outer.whole), math.prod(forward.inner.whole)),
        matvec=forward.of_one,
        rmatvec=back.of_one,
        matmat=forward,
        rmatmat=back,
        dtype=forward.dtype,
    )
    return operator if ranks.serial else _over_ranks(kind)(operator, ranks)


# What takes a vector, columns, a number, or another operator; and what makes an operator of one.
PRODUCTS = (
    *("matvec", "rmatvec", "matmat", "rmatmat", "_matvec", "_rmatvec", "_matmat", "_rmatmat"),
    *("dot", "_rdot", "__call__", "__mul__", "__rmul__", "__matmul__", "__rmatmul__"),
)
MADE = ("__add__", "__sub__", "__neg__", "__truediv__", "__pow__", "_adjoint", "_transpose")


@functools.lru_cache(maxsize=2)
def _over_ranks(kind: Any) -> Any:
    """Return the operators over ranks, a class of SciPy's or CuPy's operators.

    Each holds one of theirs, and what is made of it is one over ranks again. So ranks compare what
    they bring before an operator looks at its shape, which it would refuse on one rank alone.
    """

    def begin(self: Any, alone: Any, ranks: Ranks) -> None:
        kind.__init__(self, alone.dtype, alone.shape)
        self.alone, self.ranks = alone, ranks

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *operands: Any) -> Any:
            for each in operands:
                if not (isinstance(each, kind) or np.isscalar(each)):
                    _agree(self.ranks, each)
            plain = (each.alone if isinstance(each, whole) else each for each in operands)
            found = getattr(self.alone, name)(*plain)
            return whole(found, self.ranks) if isinstance(found, kind) else found

        return call

    names = [name for name in (*PRODUCTS, *MADE) if hasattr(kind, name)]
    methods = {name: method(name) for name in names}
    methods["__deepcopy__"] = lambda self, _: self  # nothing in it changes
    whole: Any = type("OperatorOverRanks", (kind,), {"__init__": begin, **methods})
    return whole


def _agree(ranks: Ranks, vector: AnyArray) -> None:
    """Refuse ranks with different vectors."""
    with ranks.collective("a product of a linear operator"):
        array = np.ascontiguousarray(to_host(vector))
        content = 0 if array.dtype.hasobject else crc32(array.data)
        told = ranks.allgather((np.shape(vector), array.dtype.str, content))
        for rank, (shape, dtype, content) in enumerate(told):
            what = f"shape {told[0][0]} and dtype {told[0][1]} on rank 0"
            if (shape, dtype) != told[0][:2]:
                raise ParkiValueError(
                    f"the vector has {what}, but shape {shape} and dtype {dtype} on rank "
                    f"{rank}; all ranks bring the same whole vector"
                )
            if content != told[0][2]:
                raise ParkiValueError(
                    f"rank {rank} brings another vector than rank 0; all ranks bring the same "
                    "whole vector, as solvers do that run on each of them"
                )


class End(NamedTuple):
    """The shape of all ranks' results or densities, and this rank's columns of it."""

    whole: Shape
    own: slice

    @classmethod
    def of(cls, shape: Shape, ranks: Ranks) -> End:
        """Return the end for the shape on this rank."""
        first, total = ranks.offset_and_total(shape[-1])
        return cls((*shape[:-1], total), slice(first, first + shape[-1]))


@dataclass(frozen=True)
class Product:
    """The product of a plan's matrix, or its transpose, with column vectors.

    Operators hold it, and cannot be pickled.
    """

    call: Callable[[AnyArray], AnyArray]
    name: str  # name of the input: "dens" or "values"
    dtype: DTypeLike
    ranks: Ranks
    outer: End
    inner: End

    def __call__(self, columns: AnyArray) -> AnyArray:
        """Return the products with columns, or with one vector; complex ones are two real ones."""
        values = as_array(self.name, columns)
        dtype, many = values.dtype, values.shape[1:]
        if dtype.kind == "c":
            flat = values.reshape(len(values), count := math.prod(many))
            parts = self(np.concatenate([flat.real, flat.imag], axis=1))
            return (parts[:, :count] + 1j * parts[:, count:]).reshape((len(parts), *many))
        if dtype.kind in "biuf":
            values = values.astype(self.dtype, copy=False)
        values = values.T.reshape((*many, *self.inner.whole))
        products = self.ranks.all_columns(self.call(values[..., self.inner.own]))
        products = products.reshape((*many, math.prod(self.outer.whole))).T
        return products.astype(np.result_type(self.dtype, dtype), copy=False)

    def of_one(self, vector: AnyArray) -> AnyArray:
        """Return the product with a vector, which may be a column."""
        return self(vector.reshape(-1))

    def __deepcopy__(self, _: Any) -> Product:
        return self  # nothing in it changes

    def __reduce__(self) -> Any:
        raise ParkiTypeError(
            "a linear operator cannot be pickled; pickle its plan, and make the operator there"
        )
