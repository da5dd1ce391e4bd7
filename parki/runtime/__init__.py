"""The runtime: from a workunit's source text to a launched kernel.

A kernel passes through these modules in order:

    blocks       inserts the statements that kernels have in common
    linter       refuses code outside the dialect, with file, line and remedy
    specialise   substitutes the compile-time constants, prunes, writes a plain PyKokkos file
    translate    writes C++ from the specialised syntax tree (syntax: analyses the tree)
    translations keeps that C++ in the cache, so that new processes skip all of the above
    cache        keeps shared objects and texts, safe under concurrency and kills
    host         OpenMP and Serial: the system compiler          (prelude: host.hpp; threads.cpp)
    zig          the compiler of parki[compiler], where the system has none
    device       CUDA and HIP: CuPy                               (prelude: device.hpp)
    upstream     the specialised file run by upstream PyKokkos instead
    kernel       load, prepare and launch, for the stages
    messages     messages to the user meanwhile
    spaces       available execution spaces, and an adapter for each array module
    forks        refuses devices that a process lost when it was forked; threads outside kernels
"""

from parki.runtime.kernel import Kernel, load, load_all, prepare, preparing
from parki.runtime.spaces import ExecutionSpace, available_spaces, get_execution_space, space_name

__all__ = [
    "ExecutionSpace",
    "Kernel",
    "available_spaces",
    "get_execution_space",
    "load",
    "load_all",
    "prepare",
    "preparing",
    "space_name",
]
