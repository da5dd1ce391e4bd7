"""Puts compiled kernels into the wheel: those of the folder that PARKI_WHEEL_KERNELS names.

`scripts/build_wheel.sh` makes the folder and names it. Without it, as in ``pip install .``, the
wheel is plain Python, for every machine.
"""

from __future__ import annotations

import os
import re
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
        files = sorted(path for path in Path(named).iterdir() if path.is_file())
        newest = 0
        for path in files:
            build_data["force_include"][str(path)] = f"parki/compiled/{path.name}"
            # The versions of glibc's symbols stand in the file as text.
            found = re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", path.read_bytes())
            newest = max([newest, *map(int, found)])
        if not newest:
            raise ValueError(f"{named} holds no shared object of Linux with glibc")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{newest}_x86_64"
