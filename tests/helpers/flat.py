"""Options from one dict: fields of `Expert` beside those of `EwaldOptions`, as tests vary both."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import parki

NAMES = tuple(field.name for field in fields(parki.Expert))


def keywords(**settings: Any) -> dict[str, Any]:
    """Return keywords of `EwaldOptions`."""
    inner = {name: settings.pop(name) for name in NAMES if name in settings}
    return settings | ({"expert": parki.Expert(**inner)} if inner else {})


def options(*values: Any, **settings: Any) -> parki.EwaldOptions:
    """Return `EwaldOptions`."""
    return parki.EwaldOptions(*values, **keywords(**settings))
