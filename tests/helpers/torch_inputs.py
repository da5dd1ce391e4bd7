"""What tests of `parki.torch` take: devices, sums by their names, and inputs as tensors."""

from __future__ import annotations

import pytest
from adapters import Torch
from frameworks import inputs

from parki.runtime.spaces import why_unavailable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DEVICES = ["cpu"]
if torch.cuda.is_available() and not why_unavailable("Cuda"):
    DEVICES.append(pytest.param("cuda", marks=pytest.mark.gpu))

OWN = Torch("cpu")
function, functions = OWN.function, OWN.functions


def tensors(kernel, device="cpu", dtype="f8", requires=True, **more):
    """Return the inputs of a sum as tensors, by name."""
    arrays = inputs(kernel, **more).items()
    rows = {name: torch.from_numpy(array.astype(dtype)).to(device) for name, array in arrays}
    return {name: each.requires_grad_(requires) for name, each in rows.items()}
