"""Puts compiled kernels into the wheel: those of the folder that PARKI_WHEEL_KERNELS names.

`scripts/build_wheels.py` makes the folder, and names it and the wheel's tag. Without it, as in
``pip install .``, the wheel is plain Python, for every machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """The hook of pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, and the tag of the machines on which they run."""
        named = os.environ.get("PARKI_WHEEL_KERNELS")
        if not named or version == "editable":
            return
        for path in sorted(Path(named).glob("*.so*")):  # libraries and their seals
            build_data["force_include"][str(path)] = f"parki/compiled/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["PARKI_WHEEL_TAG"]
