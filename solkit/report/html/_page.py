"""The page: filled templates, with style, script, data and Plotly, in one file.

User text is not trusted: Jinja escapes it, figures are base64, and the page's policy allows only
the two scripts whose digests it names, and no loading from anywhere. Figures and Plotly are
compressed, and so are the kernels of a page with several: it has 2 MB, plus about 10 KB per kernel.
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
from typing import TYPE_CHECKING, Any

import solkit
from solkit.extras import library
from solkit.report.html import _filters, _views
from solkit.report.overview import COST_FORMULA, NamedReport
from solkit.report.palette import DARK, LIGHT

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Failure:
    """A kernel file without a report.

    Attributes:
        path: the file.
        error: why.
    """

    path: str
    error: str


def page(
    reports: Sequence[NamedReport], *, failures: Sequence[Failure] = (), written: datetime
) -> str:
    """Return the whole page as text.

    Args:
        reports: from `solkit.report.overview.named`. One gives a page about a kernel; several give
            an index, worst first, and a comparison if they share shapes.
        failures: files without a report.
        written: when.

    Raises:
        UnsupportedError: Jinja or Plotly is not installed.
    """
    views, compared = _views.views(reports), _views.comparison(reports)
    specs = _views.charts_of(views, compared)
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    packed_plotly, plotly_digest = _packed_plotly()
    return fill_template(
        "page",
        title=_title_of_page(reports),
        written=written,
        views=views,
        index=_views.index(views),
        comparison=compared,
        cost_formula=COST_FORMULA,
        charts=_compress_to_base64(json.dumps(specs, allow_nan=False).encode()),
        chart_ids=frozenset(specs),
        gpus=_views.gpus(reports),
        failures=failures,
        script=script,
        plotly=packed_plotly,
        allowed_scripts=(_script_digest(script.encode()), plotly_digest),
    )


def fill_template(name: str, *, title: str, written: datetime, **values: Any) -> str:
    """Return the page of a template that extends ``base.html.jinja``.

    Raises:
        UnsupportedError: Jinja is not installed.
    """
    light, dark = (
        "".join(f"--{colour}: {value}; " for colour, value in theme.items())
        for theme in (LIGHT, DARK)
    )
    return (
        _environment()
        .get_template(f"{name}.html.jinja")
        .render(
            title=title,
            written=written.strftime("%Y-%m-%d %H:%M %Z"),
            version=solkit.__version__,
            style=(_TEMPLATES / "style.css").read_text(encoding="utf-8"),
            light=light,
            dark=dark,
            **values,
        )
    )


def _title_of_page(reports: Sequence[NamedReport]) -> str:
    if not reports:
        return "No kernel could be reported"
    if len(reports) == 1:
        return f"{reports[0].name} on {reports[0].report.device.name}"
    if len(reports) == 2:
        return " and ".join(named.name for named in reports)
    return f"{len(reports)} kernels"


def _script_digest(script: bytes) -> str:
    """Return a script's name in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script).digest()).decode()


@functools.cache
def _packed_plotly() -> tuple[str, str]:
    """Return Plotly's script, compressed, and its digest."""
    script = Path(library("plotly").__file__ or "").parent / "package_data" / "plotly.min.js"
    data = script.read_bytes()
    return _compress_to_base64(data), _script_digest(data)


def _compress_to_base64(data: bytes) -> str:
    """Compressed, in base64, which an HTML parser leaves alone."""
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


@functools.cache
def _environment() -> Environment:
    """Environment that fills templates: user text is escaped, and a missing value is an error."""
    jinja = library("jinja2")
    environment: Environment = jinja.Environment(
        loader=jinja.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_filters.FILTERS)
    environment.filters["packed"] = lambda markup: _compress_to_base64(str(markup).encode())
    return environment
