"""The page: templates filled in, with style, script, data and Plotly all in one file.

Nothing that a user's file says is trusted: Jinja escapes all text, figures are base64, and the
page's policy lets no script run but the two whose digests it names, and nothing load from anywhere.
Figures, Plotly and, on a page of several, kernels are compressed: it is 2 MB, and some 10 KB more
for each kernel.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import solkit
from solkit.report.extras import needed
from solkit.report.html import _filters, _views
from solkit.report.palette import DARK, LIGHT
from solkit.report.standing import COST_FORMULA, NamedReport

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Failure", "page"]

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Failure:
    """A kernel file of which there is no report.

    Attributes:
        path: the file.
        error: what was wrong.
    """

    path: str
    error: str


def page(
    reports: Sequence[NamedReport], *, failures: Sequence[Failure] = (), written: datetime
) -> str:
    """The whole page as text.

    Args:
        reports: of `solkit.report.standing.named`. One gives a page on a kernel; several an
            index, worst first, and a comparison where they have shapes in common.
        failures: files that have no report.
        written: when.

    Raises:
        UnsupportedError: Jinja or Plotly is not installed; says how to.
    """
    views, compared = _views.views(reports), _views.comparison(reports)
    specs = _views.charts_of(views, compared)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    packed_plotly, plotly_digest = _plotly()
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            views=views,
            index=_views.index(views),
            comparison=compared,
            cost_formula=COST_FORMULA,
            charts=_packed(json.dumps(specs, allow_nan=False).encode()),
            chart_ids=frozenset(specs),
            gpus=_views.gpus(reports),
            failures=failures,
            title=_title(reports),
            written=written.strftime("%Y-%m-%d %H:%M %Z"),
            version=solkit.__version__,
            style=(_TEMPLATES / "style.css").read_text(encoding="utf-8"),
            light=LIGHT,
            dark=DARK,
            script=script,
            plotly=packed_plotly,
            allowed_scripts=(_digest(script.encode()), plotly_digest),
        )
    )


def _title(reports: Sequence[NamedReport]) -> str:
    if not reports:
        return "No kernel could be reported"
    if len(reports) == 1:
        return f"{reports[0].name} on {reports[0].report.device.name}"
    if len(reports) == 2:
        return " and ".join(each.name for each in reports)
    return f"{len(reports)} kernels"


def _digest(script: bytes) -> str:
    """As a Content-Security-Policy names a script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script).digest()).decode()


@functools.cache
def _plotly() -> tuple[str, str]:
    """Plotly's script, packed, and its digest."""
    script = Path(needed("plotly").__file__ or "").parent / "package_data" / "plotly.min.js"
    data = script.read_bytes()
    return _packed(data), _digest(data)


def _packed(data: bytes) -> str:
    """Compressed, as text that means nothing to an HTML parser."""
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


@functools.cache
def _environment() -> Environment:
    jinja = needed("jinja2")
    environment: Environment = jinja.Environment(
        loader=jinja.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_filters.FILTERS)
    environment.filters["packed"] = lambda markup: _packed(str(markup).encode())
    return environment
