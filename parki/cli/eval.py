"""`parki eval`: one sum, from a file of arrays to a file of results.

It reads and writes NumPy's .npz, and HDF5 where h5py is installed. `parki.Plan` checks the arrays.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from parki import __version__
from parki.cli.arguments import (
    COMMON,
    Commands,
    add_common,
    check_ending,
    check_output,
    command,
    home_expanded,
    reads,
    replacing,
)
from parki.errors import MissingPackageError, ParkiValueError
from parki.ewald import EwaldOptions, Plan
from parki.ewald.checks import Check
from parki.ewald.lattice import lattice
from parki.ewald.options import PERIODICITIES
from parki.ewald.points import RESULTS, check_dtypes, check_points
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.typing import AnyArray, AnyKernel

ENDINGS = {".npz": "npz", ".h5": "hdf5", ".hdf5": "hdf5"}
# Errors that NumPy, zipfile and h5py raise for a file of another format than its name says.
SPOILT: tuple[type[Exception], ...] = (OSError, ValueError, TypeError, KeyError, EOFError)
SPOILT += (RuntimeError, zipfile.BadZipFile, zlib.error)
ARRAYS = ("src", "dens", "norms", "trg")

length = reads(
    lambda text: None if text.lower() == "none" else float(text),
    "%s is not a length; expected a number, or 'none' for a free axis",
)


def _periodicity(text: str) -> int | tuple[bool, ...]:
    numbers = [int(part) for part in text.split(",")]
    if len(numbers) == 3 and {*numbers} <= {0, 1}:
        return tuple(map(bool, numbers))
    if len(numbers) != 1 or numbers[0] not in PERIODICITIES:
        raise ValueError
    return numbers[0]


periodicity = reads(
    _periodicity, "%s is no periodicity; expected 0 to 3, or 1 or 0 for each axis, such as 0,1,1"
)

DESCRIPTION = """\
Read points and a density from a file, sum, and write the results to another. The input holds
these arrays, all float64 or all float32, in .npz (numpy.savez) or HDF5 (.h5; needs h5py):

  src    (3, N)   sources
  trg    (3, M)   targets; without trg, the sources are the targets
  dens   (3, N)   density; (N,) for laplace, (6, N) for stokes_comb: rows 0-2 of the single
                  layer, rows 3-5 of the double layer; (3, 3, N) for stokes_dipole
  norms  (3, N)   normals at the sources, for stokes_dl and stokes_comb alone

With k densities, k comes first in dens, such as (k, 3, N), and in the results. Other names are
refused. Nothing is scaled: divide results by 8 pi to get velocities and, except
for double layers, by the viscosity.
"""

EPILOG = """\
The output holds an array for each name of --want: u (3, M), or (M,) for potentials; p (M,);
grad_u (3, 3, M), with [i, j] the derivative of u_i along axis j; stress (3, 3, M); and 'options',
a text in JSON with the options used and what they promise (in HDF5 an attribute of the file). For
example, after numpy.savez("drops.npz", src=points, dens=forces):

  parki eval drops.npz -o flow.npz --kernel stokes_sl --box 1 1 1 --want u,p
  parki eval drops.npz -o pipe.npz --kernel stokes_sl --periodicity 1 --box 1 none none
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "sum the points and densities of a file"
    parser = command(commands, "eval", run, summary=summary, description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("input", type=Path, metavar="INPUT", help="file to read: .npz or .h5")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="file to write")
    add("--kernel", required=True, **COMMON["kernel"])
    axes = "0 to 3, the number of periodic axes, which are the first; or 0,1,1 for others (3)"
    add("--periodicity", type=periodicity, default=3, metavar="P", help=axes)
    add_common(parser, tolerance=1e-6, space="OpenMP")
    edges = (
        "edges X Y Z, and tilts XY XZ YZ if there are any; 'none' for a free axis takes the extent "
        "of the points"
    )
    add("--box", nargs="+", type=length, metavar="X", help=edges)
    results = f"one or more of {','.join(RESULTS)} (u)"
    add("--want", default="u", metavar="NAMES", help=results)
    measured = "measure the error at a few targets, print it, and write it with the options"
    add("--check", action="store_true", help=measured)


def vectors(box: Sequence[float | None] | None) -> Any:
    """Return the lattice vectors of three edges and three tilts; others unchanged."""
    if box is None or len(box) != 6:
        return box
    lx, ly, lz, xy, xz, yz = (number or 0.0 for number in box)
    first, second, _ = lattice(lx, ly, lz, xy, xz, yz).tolist()
    return [first, second, None if box[2] is None else [*box[4:], box[2]]]


def run(arguments: argparse.Namespace) -> int:
    """Read, sum and write; return the exit code."""
    source, target = home_expanded(arguments.input), home_expanded(arguments.output)
    kinds = _kind("input", source), _kind("output", target)
    if arguments.box is None and np.any(arguments.periodicity):
        raise ParkiValueError(
            f"box is missing, but periodicity is {arguments.periodicity}; give --box X Y Z, the "
            "lengths of the periodic axes, and 'none' for a free axis"
        )
    check_output(target)
    if target.exists() and source.exists() and target.samefile(source):
        raise ParkiValueError(f"output is {target}, which is the input; name another file")
    space = get_execution_space(arguments.space)
    options = EwaldOptions(
        periodicity=arguments.periodicity,
        box=vectors(arguments.box),
        tolerance=arguments.tolerance,
        execution_space=space,
    )
    arrays = read(source, kinds[0], arguments.kernel)
    start = time.perf_counter()
    want = tuple(name.strip() for name in arguments.want.split(","))
    results, used = evaluate(arguments.kernel, arrays, options, want, arguments.check)
    seconds = time.perf_counter() - start
    write(target, kinds[1], results, used)
    shapes = ", ".join(f"{name} {values.shape}" for name, values in results.items())
    print(f"{target}: {shapes}; {seconds:.2f} s on {space}")
    for name, values in used.get("check", {}).items():
        for fields in values if isinstance(values, list) else [values]:
            print(f"{name}: {Check(**fields)}")
    return 0


def _kind(name: str, path: Path) -> str:
    """Return the format of a file by its ending."""
    check_ending(name, path, ENDINGS)
    kind = ENDINGS[path.suffix.lower()]
    if kind == "hdf5" and importlib.util.find_spec("h5py") is None:
        raise MissingPackageError(
            f"{name} is {path}, but h5py is not installed; 'pip install h5py' brings it, "
            "or use .npz"
        )
    return kind


def read(path: Path, kind: str, kernel: str) -> dict[str, Any]:
    """Return the arrays of a file: src and dens, and trg and norms if they are there.

    Unknown names are refused: mostly such an array is a misnamed input, and ignoring it would
    change the sum.
    """
    needed = ["src", "dens", *(["norms"] if SUMS[kernel].normals else [])]
    try:
        values, names = _load(path, kind, ARRAYS)
    except FileNotFoundError:
        raise ParkiValueError(f"input is {path}; there is no such file") from None
    except SPOILT as error:
        raise ParkiValueError(f"input is {path}, which cannot be read: {error}") from error
    for name in needed:
        if name not in names:
            raise ParkiValueError(
                f"input is {path}, which has no array {name}; {kernel} needs "
                f"{', '.join(needed)} (and takes trg), but there is "
                f"{', '.join(names) or 'nothing'}"
            )
    if unknown := [name for name in names if name not in ARRAYS]:
        raise ParkiValueError(
            f"input is {path}, which has {', '.join(unknown)}, "
            f"{'which is' if len(unknown) == 1 else 'which are'} not known; expected "
            f"{', '.join(ARRAYS)}: rename or remove the rest"
        )
    return values


def _load(path: Path, kind: str, wanted: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the arrays of the given names that a file has, and the names of all its arrays."""
    if kind == "hdf5":
        import h5py

        with h5py.File(path, "r") as file:
            for name in wanted:
                if isinstance(file.get(name), h5py.Group):
                    raise ValueError(f"{name} is a group; expected an array")
            return {name: np.asarray(file[name]) for name in wanted if name in file}, sorted(file)
    if path.exists() and not zipfile.is_zipfile(path):
        raise ValueError("it is not what numpy.savez writes")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in wanted if name in file.files}, sorted(file.files)


def evaluate(
    kernel: str,
    arrays: dict[str, AnyArray],
    options: EwaldOptions,
    want: tuple[str, ...],
    check: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return results by name, on the host, and the options used, with the error if checked.

    ``arrays`` are host arrays as in `DESCRIPTION`; ``options`` have an execution space.
    """
    check_dtypes(arrays)
    if "trg" not in arrays:
        check_points("src", arrays["src"], options)  # the plan's message would name trg
    space = get_execution_space(options.execution_space)
    placed = {name: space.array_module.asarray(values) for name, values in arrays.items()}
    src, dens = placed["src"], placed["dens"]
    trg, norms = placed.get("trg", src), placed.get("norms")
    plan: Any = Plan(cast(AnyKernel, kernel), trg, src, norms, options, want=want)
    host = [to_host(values) for values in plan(dens)]
    used: dict[str, Any] = {
        "parki": __version__,
        "kernel": kernel,
        "want": list(want),
        "periodicity": options.periodicity,
        "box": plan.box.tolist(),
        "origin": [float(edge) for edge in plan.origin],
        "tolerance": options.tolerance,
        "dtype": str(plan.dtype),
        "execution_space": space.name,
        "promise": {
            n: np.asarray(e).tolist() for n, e in zip(want, plan.promise(dens), strict=True)
        },
    }
    if check:
        several = dens.ndim > len(plan.task.sum.density_shape(1))
        checks: Any = [plan.check(values) for values in (dens if several else dens[None])]
        parts = {n: [asdict(one[k]) for one in checks] for k, n in enumerate(want)}
        used["check"] = parts if several else {name: values[0] for name, values in parts.items()}
    return dict(zip(want, host, strict=True)), used


def write(path: Path, kind: str, results: dict[str, AnyArray], used: dict[str, Any]) -> None:
    """Write results and options by one renaming, so that no file is partial."""
    text = json.dumps(used)
    with replacing(path) as part:
        if kind == "hdf5":
            import h5py

            with h5py.File(part, "w") as file:
                for name, values in results.items():
                    file[name] = values
                file.attrs["options"] = text
        else:
            with open(part, "wb") as stream:
                np.savez(stream, options=np.array(text), **results)
