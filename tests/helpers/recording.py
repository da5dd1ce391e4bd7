"""A host in the place of a device that records."""

from __future__ import annotations

import pytest

from parki.runtime.spaces import host


def let_the_host_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host record launches, as a device does: it makes what is recorded once more."""
    monkeypatch.setattr(host, "records", lambda: True)
    monkeypatch.setattr(host, "record", lambda work: work, raising=False)
