"""The colours of figures and pages, light and dark.

Marks have the colours of Okabe and Ito, "Color Universal Design: how to make figures and
presentations that are friendly to colorblind people" (2008, jfly.uni-koeln.de/color), which are
distinct for people with any common form of colour blindness. A shape, a dash or a word repeats
what each colour says. Grey text has a contrast of at least 4.5 (WCAG 2.2, criterion 1.4.3).
"""

from __future__ import annotations

_BLUE, _SKY, _GREEN = "#0072B2", "#56B4E9", "#009E73"
_VERMILLION, _ORANGE, _PURPLE = "#D55E00", "#E69F00", "#CC79A7"

LIGHT = {
    "page": "#f5f6f7",
    "surface": "#ffffff",
    "ink": "#1c2127",
    "muted": "#59626d",
    "line": "#d5dae0",
    "sol": _BLUE,
    "measured": _VERMILLION,
    "modelled": _PURPLE,
    "expected": _PURPLE,
    "loss": _ORANGE,
    "gain": _GREEN,
    "datasheet": _GREEN,
    "calibrated": _PURPLE,
}
"""On white."""

DARK = LIGHT | {
    "page": "#0f1318",
    "surface": "#171c23",
    "ink": "#e7ebf0",
    "muted": "#9aa5b1",
    "line": "#333c47",
    "sol": _SKY,
}
"""On a dark background, where Okabe and Ito's darker blue would be invisible."""
