"""Variants of rewrites that change launches, or functions, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch

FunctionChange = Callable[[JitFunction], cst.FunctionDef | None]


def launch_variants(
    text: KernelText,
    facts: Facts,
    change: Callable[[Launch], str | cst.FunctionDef | None],
    intent: str,
    *factors: str,
) -> Iterator[Variant]:
    """Yield a file for each launch that a rewrite changes.

    Args:
        text: the file.
        facts: of the brief.
        change: returns the whole file, or the launch's function; ``None`` or an empty text where
            the rewrite does not apply.
        intent: of the variant, without its full stop; ``{}`` is the function's name.
        factors: of the gap that explain it.
    """
    for launch in text.single:
        name, changed = launch.function.name, change(launch)
        if changed is None or changed is launch.function.node or not changed:
            continue
        if not isinstance(changed, str):
            changed = changed_text(text, functions={name: changed})
        yield Variant(changed, f"{intent.format(name)}{facts.explain_factors(*factors)}.")


def function_variants(
    text: KernelText, facts: Facts, change: FunctionChange, intent: str, *factors: str
) -> Iterator[Variant]:
    """Yield a file for each function that a rewrite changes; arguments as of `launch_variants`."""
    for name, function in text.used.items():
        if (node := change(function)) is not None:
            source = changed_text(text, functions={name: node})
            yield Variant(source, f"{intent.format(name)}{facts.explain_factors(*factors)}.")


def joint_variant(
    text: KernelText, facts: Facts, change: FunctionChange, intent: str, *factors: str
) -> Iterator[Variant]:
    """Yield the file in which a rewrite changes all functions that it can, if there are any.

    Arguments as of `launch_variants`; ``{}`` is the names of the functions.
    """
    changed = {name: change(function) for name, function in text.used.items()}
    new = {
        name: node
        for name, node in changed.items()
        if node is not None and node is not text.used[name].node
    }
    if new:
        intent = intent.format(", ".join(new))
        why = facts.explain_factors(*factors)
        yield Variant(changed_text(text, functions=new), f"{intent}{why}.")
