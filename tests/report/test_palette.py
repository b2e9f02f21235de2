"""Contrast as WCAG 2.2 defines it: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""

import itertools

import pytest

from solkit.report.palette import DARK, LIGHT


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_can_be_read(theme):
    for text, ground in itertools.product(("ink", "muted"), ("page", "surface")):
        assert contrast(theme[text], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_marks_of_different_meaning_differ(theme):
    assert len({theme[name] for name in ("sol", "measured", "modelled", "loss", "gain")}) == 5
    for mark in ("sol", "measured", "gain"):
        assert contrast(theme[mark], theme["surface"]) >= 3  # criterion 1.4.11
