"""Small tables for notebooks, without colours, so that they suit light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

LINE = "border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent)"


def table(title: str, rows: Mapping[str, str]) -> str:
    """Return a table of two columns as HTML, under a title."""
    cell = f"text-align: left; padding: 2px 16px 2px 0; {LINE}"
    lines = [
        f'<tr style="background: none"><td style="{cell}; opacity: 0.7">{escape(name)}</td>'
        f'<td style="{cell}">{escape(value)}</td></tr>'
        for name, value in rows.items()
    ]
    caption = f'<caption style="text-align: left; font-weight: bold">{escape(title)}</caption>'
    return f'<table style="border-collapse: collapse">{caption}{"".join(lines)}</table>'
