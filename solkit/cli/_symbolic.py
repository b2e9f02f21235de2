"""``solkit bound --symbolic M,N``: the bound as a formula."""

from __future__ import annotations

import json as jsonlib
import re
from functools import partial
from typing import TYPE_CHECKING

from solkit.cli import _base
from solkit.core.quantities import settings_text
from solkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from solkit.core import Value
    from solkit.roofline.symbolic import SymbolicBound


def check_options(
    refused: Mapping[str, bool], protocol: str, shapes: Sequence[dict[str, Value]] | None
) -> None:
    """Check that the options fit a formula.

    Args:
        refused: options that exclude a formula, and whether each was given.
        protocol: the timing protocol.
        shapes: as given.

    Raises:
        InputError: several shapes, a warm protocol or an excluded option.
    """
    for option in (name for name, value in refused.items() if value):
        raise InputError(f"--symbolic gives a formula of the whole problem and excludes {option}")
    if protocol != "cold":
        raise InputError(
            "--symbolic needs --protocol cold: whether inputs fit in L2 depends on sizes"
        )
    if shapes is not None and len(shapes) > 1:
        raise InputError("--symbolic takes one --shape: the sizes that stay numbers")


def show_formula(bound: SymbolicBound, json: str | None) -> None:
    """Print a formula, and write it as JSON if requested."""
    _base.show_page_or_json(json, partial(_render_symbolic, bound), lambda: _symbolic_json(bound))


def _render_symbolic(bound: SymbolicBound, console: Console) -> None:
    from rich.table import Table

    fixed = settings_text(bound.work.fixed)
    console.print(f"{bound.device}, precision {bound.precision}" + (f", {fixed}" if fixed else ""))
    table = Table("amount", "formula", "how", box=None, header_style="bold")
    for formula in bound.work.formulas:
        table.add_row(formula.amount, formula.expression or "none", formula.origin)
    console.print(table)
    sign = "=" if bound.complete else "≥"
    console.print(f"T {sign} {bound.time_s} s", style="bold", soft_wrap=True, markup=False)
    for formula in bound.work.formulas:
        if formula.reason:
            console.print(f"{formula.amount}, {formula.origin}: {formula.reason}", markup=False)
    if bound.work.conditions:
        console.print(f"Where {'; '.join(bound.work.conditions)}.", markup=False)
    unused = [n for n in bound.work.sizes if not _depends_on_size(bound, n)]
    if unused:
        console.print(f"No amount depends on {', '.join(unused)}.")
    for point, formula_ms, numeric_ms in bound.times_ms:
        console.print(f"{settings_text(point)}: {formula_ms:.6g} ms, numeric {numeric_ms:.6g} ms")


def _depends_on_size(bound: SymbolicBound, name: str) -> bool:
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(f.expression) or not f.expression for f in bound.work.formulas)


def _symbolic_json(bound: SymbolicBound) -> str:
    from solkit.core.codec import json_value

    times = [
        {"sizes": dict(point), "formula_ms": formula_ms, "numeric_ms": numeric_ms}
        for point, formula_ms, numeric_ms in bound.times_ms
    ]
    record = {
        "schema": "solkit.symbolic/1",
        "device": bound.device,
        "precision": bound.precision,
        "symbols": dict(bound.work.sizes),
        "fixed": dict(bound.work.fixed),
        "time_s": bound.time_s,
        "complete": bound.complete,
        "resources_s": dict(bound.resources),
        "amounts": json_value(bound.work.formulas, complete=True),
        "conditions": list(bound.work.conditions),
        "checked": times,
    }
    return jsonlib.dumps(record, indent=2, ensure_ascii=False)
