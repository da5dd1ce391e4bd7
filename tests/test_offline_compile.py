"""Every workunit compiles for NVIDIA's and AMD's architectures, on a machine that has neither.

NVRTC comes from PyPI, hipcc from the system (Debian and Ubuntu: apt install hipcc); where one is
missing its tests are skipped. The kernels are not run here: tests with a GPU do that.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import shutil
import subprocess
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from parki.errors import KernelError
from parki.ewald.sums import SUMS as RECORDS
from parki.runtime.device import HIP_OPTIONS, OPTIONS, source_text
from parki.runtime.linter import is_decorated
from parki.runtime.specialise import kernel_directory, specialise
from parki.runtime.translate import Translated, translate

SUMS = ("stokes_comb", *(name for name in RECORDS if name != "stokes_comb"))  # the largest first
WIDTHS = "gaussian_charges(narrowest=0.1, widest=0.2)"
BLOBS = ("stokes_comb(epsilon=0.1)", WIDTHS, "stokes_dipole(epsilon=0.1)")
# A rotlet spreads as a Stokeslet does.
SPREAD = tuple(name for name in SUMS if name != "stokes_rotlet")
# Sets of constants in the default run, besides those of lists, which only devices keep: those of
# the smallest windows or degrees. The host's compiler meets the statements of all.
FEW = 2
LAUNCH_BOUND = 128
# NVRTC takes seconds for each kernel of WIDE with windows this wide: in the long run alone.
WIDEST = 14
WIDE = ("g2p_target", "g2p_gradient", "g2p_tensor", "gather_mesh", "p2g_owner", "p2g_source")
# Scratch memory of a team: what one multiprocessor of an sm_80 has, the smallest of those here.
SCRATCH_LIMIT = 163 * 1024


def compile_offline(translated: Translated, architecture: str) -> bytes:
    """Compile for an architecture that need not be present, such as ``sm_90`` or ``gfx90a``.

    NVRTC comes from PyPI (nvidia-cuda-nvrtc, cuda-bindings), hipcc from the system.
    """
    build = _compile_hip if architecture.startswith("gfx") else _compile_cuda
    return build(source_text(translated), architecture)


def _compile_cuda(text: str, architecture: str) -> bytes:
    from cuda.bindings import nvrtc

    error, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None)
    options = [b"-arch=" + architecture.encode(), *(o.encode() for o in OPTIONS)]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytes(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise KernelError(f"NVRTC refused a kernel for {architecture}:\n{log.decode()[:3000]}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    binary = bytes(size)
    nvrtc.nvrtcGetCUBIN(program, binary)
    return binary


def _compile_hip(text: str, architecture: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="parki-") as folder:
        source, target = Path(folder) / "kernel.hip", Path(folder) / "kernel.hsaco"
        # hipRTC has the declarations built in, hipcc has them here.
        source.write_text("#include <hip/hip_runtime.h>\n" + text, encoding="utf-8")
        command = ["hipcc", "--genco", f"--offload-arch={architecture}", *HIP_OPTIONS]
        run = subprocess.run(
            [*command, str(source), "-o", str(target)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HIP_PLATFORM": "amd"},
        )
        if run.returncode != 0:
            raise KernelError(f"hipcc refused a kernel for {architecture}:\n{run.stderr[:3000]}")
        return target.read_bytes()


def workunits() -> list[tuple[str, str]]:
    """Return (file, name) of every workunit."""
    return [
        (str(path.relative_to(kernel_directory()).with_suffix("")), node.name)
        for path in sorted(kernel_directory().rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and is_decorated(node, "workunit")
    ]


def shapes(names: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return sets of constants of these names."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def each_sum(sums, shapes, what="p2p"):
    """Return constants of sums, with those of a few shapes one after the other."""
    own = ((RECORDS[name], shape) for name, shape in zip(sums, cycle(shapes)))
    return [(sum_.p2p() if what == "p2p" else getattr(sum_, what)) | shape for sum_, shape in own]


EVALUATORS = shapes("PERIODIC EVALUATOR DEGREE", (3, 1, 0), (3, 2, 10), (3, 2, 7))
NO_LAYERS = {"PLAIN": 2, "LAYERS": False}
HYBRID = ((14, 10, 7, 32), (5, 6, 3, 16), (8, 7, 4, 32), (2, 4, 1, 8))


def constant_sets(file: str) -> list[dict[str, Any]]:
    """Return a few sets of constants: every sum, small and large windows and degrees."""
    match file:
        case "p2p" | "p2p_tile":
            small = {"DEGREE": 8, "PERIODIC": 1}
            sums = each_sum(SUMS, [{"DEGREE": 30, "PERIODIC": 3}, small])
            sums += each_sum(("stokes_comb", "stokes_comb", "laplace"), EVALUATORS)
            sums[0]["MANY"] = 4
            sums += each_sum(BLOBS, [{"DEGREE": 26, "PERIODIC": 3}])
            sums[-1]["ALGEBRAIC"] = 2
            if file == "p2p":
                return sums
            # As on a device: whose lists are forgotten, counted, kept, taken.
            tile = {"TILES": 4, "TILE": 8, "LANES": 4}
            sums += [dict(small | tile, LISTS=use, LIST=1 if use else 64) for use in range(4)]
            sums.append(small | tile | {"LABELS": True})
            sums.append(RECORDS[WIDTHS].p2p(slopes=True) | small | tile)
            more = constant_sets("p2p_derivatives")
            return sums + [dict(tile, **each, DERIVATIVES=True) for each in more]
        case "literature/p2p_cells":
            cells = [
                {"STAGED": True, "VECTORS": 2, "TARGETS": 64, "CHUNK": 128, "DEGREE": 30},
                {"STAGED": False, "VECTORS": 32, "TARGETS": 4, "DEGREE": 8, "PERIODIC": 1},
                {"STAGED": True, "VECTORS": 1, "TARGETS": 128, "CHUNK": 100, "PERIODIC": 0},
                {"STAGED": False, "VECTORS": 1, "TARGETS": 128, "PERIODIC": 2},
            ]
            more = shapes("EVALUATOR DEGREE", (1, 0), (2, 7))
            return each_sum((*SUMS, *BLOBS[:1]), cells) + [cells[2] | each for each in more]
        case "p2p_derivatives":
            kernels = (*SUMS, *BLOBS)
            sums = each_sum(kernels, shapes("DEGREE PERIODIC", (30, 0), (8, 1), (30, 2), (8, 3)))
            for kernel, constants in zip(kernels, sums, strict=True):
                constants["TABLES"] = len(RECORDS[kernel].pair.derivatives)
                constants["PRESSURE"] = bool(RECORDS[kernel].terms.get("p"))
                constants["GRADIENT"] = kernel != "stokes_dl"
            tensors = {"TENSORS": True, "TABLES": 3, "DEGREE": 20, "PERIODIC": 2, "LOW": True}
            return sums + each_sum(2 * ["stokes_sl"], [tensors, {"TABLES": 2, "LABELS": True}])
        case "p2p_labels":
            kernels = (SUMS[0], "laplace", "yukawa(kappa=2.0)")
            rows = (30, 3, True, True), (8, 2, False, False), (30, 1, True, False)
            sums = each_sum(kernels, shapes("DEGREE PERIODIC GIVEN LOW", *rows))
            for kernel, constants in zip(kernels, sums, strict=True):
                constants |= {"VALUES": True, "PRESSURE": bool(RECORDS[kernel].terms.get("p"))}
            return sums
        case "g2p_tensor":
            kinds = ((14, {"GRADIENT": True}), (4, {"GRADIENT": False, "SYSTEMS": True}))
            return [{"P": p, "ROW": p, "TERMS": p - 1, **kind} for p, kind in kinds]
        case "p2g":
            rows = (14, 16, 13), (4, 4, 5), (8, 8, 9), (4, 8, 5), (9, 12, 8), (7, 8, 8)
            alone = {"P": 6, "ROW": 6, "PX": 1} | NO_LAYERS
            return [*each_sum(SPREAD, shapes("P ROW TERMS", *rows), "p2g"), alone]
        case "p2g_block":  # CPUs have more scratch memory
            blocks = [{"P": 8, "BATCH": 16}, {"P": 5, "TERMS": 6, "BATCH": 8, "LANES": 16}]
            sums = ("stokes_comb", "stokes_dipole", "stokes_dl", "stokes_sl")
            return each_sum(sums, blocks, "p2g")
        case "g2p_block":
            block = {"P": 5, "ROW": 8, "TERMS": 6, "BATCH": 16}
            every = {"GRADIENT": True, "PRESSURE": True, "TENSORS": True, "SYSTEMS": True}
            short = {"P": 9, "ROW": 16, "LANES": 16, "COMPONENTS": 1, "GRADIENT": True}
            return [block, block | short, block | every | {"BATCH": 4, "HIGH": 5}]
        case "p2g_tile":
            tiles = [
                {"P": 14, "TERMS": 13, "BATCH": 30},
                {"P": 4, "TERMS": 5, "TILE1": 4, "TILE2": 8, "OWN": 2},
                {"P": 8, "TERMS": 9},
                {"P": 5, "TERMS": 6, "SIDE2": 4, "BATCH": 21},
                {"P": 9, "TERMS": 8, "SEVERAL": True},
                {"P": 7, "TERMS": 8},
            ]
            tiles = [dict(tile, COUNTING=n % 2 == 0) for n, tile in enumerate(tiles)]
            return [*each_sum(SPREAD, tiles, "p2g"), {"P": 6} | NO_LAYERS]
        case "literature/p2g_paper":
            tiles = [each | {"ROW": each["P"]} for each in shapes("P TERMS TILE BATCH", *HYBRID)]
            small = {"P": 6, "ROW": 6, "TILE": 3} | NO_LAYERS
            flat = {"P": 5, "ROW": 5, "TILE": 3, "PX": 1, "PLAIN": 3, "LAYERS": False}
            return [*each_sum(SUMS[:4], tiles, "p2g"), small, flat]
        case "literature/conflicts":
            switches = [{}, {"EACH": True, "ATOMIC": True}, {"EACH": True}, {"PRIVATE": True}]
            sizes = shapes("P ROW COMPONENTS", (8, 8, 3), (7, 7, 2), (6, 6, 1), (5, 5, 3))
            pairs = zip(switches, sizes, strict=True)
            return [*(each | size for each, size in pairs), {"P": 4, "ROW": 4, "PX": 1}]
        case "literature/stored_mesh":
            return [
                {"P": 14, "ROW": 14, "TERMS": 10, "COMPONENTS": 3},
                {"P": 6, "ROW": 6, "GROUP": 64, "COMPONENTS": 2},
                {"P": 4, "ROW": 4, "HYBRID": True, "PX": 1},
            ]
        case "g2p_tile":
            # P = 13 leaves a thread idle at one height, P = 9 five lanes, P = 5 some planes.
            tiles = [
                {"P": 13, "SPLIT": 7, "STEPS": 2, "COMPONENTS": 1, "GRADIENT": True, "PLANE": 410},
                {"P": 9, "BANDS": 3, "SPLIT": 9, "LANES": 32, "BATCH": 16, "PLANE": 265},
                {"P": 5, "BANDS": 3, "SPLIT": 5, "COMPONENTS": 1},
                {"P": 6, "SPLIT": 6, "GRADIENT": True, "VALUES": False},
            ]
            return [dict(tile, ROW=tile["P"], TERMS=tile["P"] // 2 + 3) for tile in tiles]
        case "g2p":
            rows = (3, 14, 14, 13, True), (1, 4, 4, 3, False), (3, 8, 8, 7, True)
            sets = shapes("COMPONENTS P ROW TERMS VALUES", *rows)
            return [*sets, {"COMPONENTS": 2, "P": 4, "ROW": 4, "PX": 1}]
        case "fgc":
            wants = [{"VELOCITY": n != 2, "PRESSURE": n % 2 == 0} for n in range(len(SUMS))]
            return each_sum(SUMS, wants, "fgc")
    return [{}]


def translated(file: str, name: str, real: str, constants: dict[str, Any]) -> Translated:
    return translate(specialise(file, name, {"REAL": real, **constants}), LAUNCH_BOUND)


@pytest.fixture(scope="module")
def nvrtc():
    """Skip where NVRTC cannot be loaded, with the reason."""
    bindings = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    try:
        bindings.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC cannot be loaded: {error}")


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    ("file", "name"), [each for each in workunits() if not each[0].startswith("literature")]
)
def test_cuda(file, name):
    """The first set of constants in single precision, and the second one in double precision."""
    sets = [each for each in constant_sets(file) if not wide(name, each)]
    sets.sort(key=lambda each: each.get("P", each.get("DEGREE", 0)))
    few = sets[:FEW] + [each for each in sets[FEW:] if each.get("LISTS")]
    for real, part in (("float", few[::2]), ("double", few[1::2])):
        compiles_for_cuda(file, name, real, "sm_90", part)


@pytest.mark.slow
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize(
    ("file", "name", "widest"),
    [(*each, widest) for each in workunits() for widest in range(1 + (each[1] in WIDE))],
)
def test_cuda_with_all_constants(file, name, widest, real, architecture):
    sets = [each for each in constant_sets(file) if wide(name, each) == widest]
    assert sets or not widest, "no window is so wide: leave the workunit out of WIDE"
    compiles_for_cuda(file, name, real, architecture, sets)


def wide(name: str, constants: dict[str, Any]) -> bool:
    return name in WIDE and constants.get("P") == WIDEST


def compiles_for_cuda(file, name, real, architecture, sets):
    # The older architecture has the smaller limits: there the first set, which has everything.
    for constants in sets[: 1 if architecture == "sm_80" else None]:
        kernel = translated(file, name, real, constants)
        binary = compile_offline(kernel, architecture)
        assert binary.startswith(b"\x7fELF") and b"parki_launch" in binary
        assert kernel.scratch <= SCRATCH_LIMIT


@pytest.mark.usefixtures("nvrtc")
def test_names_of_kernels_and_cuda_refusal_shows_the_log():
    kernel = translated("cell_list", "gather_rows", "double", {})
    binary = _compile_cuda(source_text(kernel, "parki_gather_rows"), "sm_90")
    assert b"parki_gather_rows" in binary and b"parki_launch" not in binary
    broken = dataclasses.replace(kernel, text=kernel.text.replace("order[", "disorder["))
    with pytest.raises(KernelError, match=r"(?s)NVRTC refused a kernel for sm_90.*disorder"):
        compile_offline(broken, "sm_90")


hip = pytest.mark.skipif(shutil.which("hipcc") is None, reason="hipcc is not installed")


@hip
@pytest.mark.hip
@pytest.mark.slow
@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize(("file", "name"), workunits())
def test_hip(file, name, real):
    # hipcc takes over a second per kernel: the sum that has everything stands for the others.
    kernel = translated(file, name, real, constant_sets(file)[0])
    assert b"parki_launch" in compile_offline(kernel, "gfx90a")


@hip
@pytest.mark.hip
def test_hip_refusal_shows_the_log():
    kernel = translated("cell_list", "gather_rows", "double", {})
    broken = dataclasses.replace(kernel, text=kernel.text.replace("order[", "disorder["))
    with pytest.raises(KernelError, match=r"(?s)hipcc refused a kernel for gfx90a.*disorder"):
        compile_offline(broken, "gfx90a")
