"""The runtime: from a workunit's source text to a launched kernel.

In the order a kernel passes through:

    blocks      writes out what kernels share
    linter      refuses what is outside the dialect, with file, line and remedy
    specialise  substitutes the compile-time constants, prunes, writes a plain PyKokkos file
    translate   writes C++ from the specialised syntax tree (syntax: what it reads off the tree)
    cache       keeps shared objects, safe under concurrency and kills
    host        OpenMP and Serial: the system compiler          (prelude: host.hpp)
    device      CUDA and HIP: CuPy                               (prelude: device.hpp)
    upstream    the specialised file run by upstream PyKokkos instead
    kernel      load, prepare and launch: what the stages use
    messages    what the user hears meanwhile
    spaces      execution spaces, what is available, and an adapter for each array module
    forks       which of them a process lost when it was forked
    captures    refuses calls inside of a stream capture
    libraries   opens shared objects of kernels, and says how long OpenMP's threads spin
    pool        CPU threads for what is not a kernel
"""

from parki.runtime.kernel import Kernel, load, prepare
from parki.runtime.spaces import ExecutionSpace, available_spaces, get_execution_space

__all__ = [
    "ExecutionSpace",
    "Kernel",
    "available_spaces",
    "get_execution_space",
    "load",
    "prepare",
]
