"""Modifiers of an access: cache operators, memory semantics, what an atomic does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AccessModifiers:
    """The fields of these names of `solkit.core.Access`."""

    cache: str = ""
    eviction: str = ""
    is_volatile: bool = False
    semantics: str = ""
    scope: str = ""
    operation: str = ""
    is_returned: bool = False


_CACHES = frozenset({"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc"})
_SEMANTICS = frozenset({"relaxed", "acquire", "release", "acq_rel"})
_SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
_OPERATIONS = frozenset(
    {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas", "fadd", "umax", "umin"}
)
_ALIASES = {"fadd": "add", "umax": "max", "umin": "min"}


def ttgir_modifiers(name: str, text: str, is_returned: bool) -> AccessModifiers:
    """Return the modifiers of an operation of Triton's IR.

    Cache policies are attributes of their own up to Triton 3.7 (``cacheModifier = cg``), and one
    from 3.8 on (``cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = ...>``).

    Args:
        name: of the operation.
        text: between its name and its types.
        is_returned: whether its result is used.
    """
    cache = _first_match(r"\bcache_?[mM]odifier = (\w+)", text)
    eviction = _first_match(r"\beviction_?[pP]olicy = (\w+)", text)
    semantics = scope = operation = ""
    if name in ("tt.atomic_rmw", "tt.atomic_cas"):
        words = [word.strip() for word in text.partition("%")[0].split(",")]
        semantics, scope, operation = _atomic_modifiers(words)
        operation = operation or "cas"
    elif "reduce" in name:
        operation = next((w for w in re.findall(r"\w+", text) if w in _OPERATIONS), "add")
    return AccessModifiers(
        cache="" if cache == "none" else cache,
        eviction="" if eviction in ("normal", "evict_normal") else eviction,
        is_volatile="isVolatile = true" in text,
        semantics=semantics,
        scope=scope,
        operation=_ALIASES.get(operation, operation),
        is_returned=bool(operation) and is_returned,
    )


def _first_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def ptx_modifiers(name: str, modifiers: Sequence[str]) -> AccessModifiers:
    """Return the modifiers of a PTX instruction: from its name and its modifiers, in their order.

    Source: PTX ISA, ld, st, atom and red: an atomic without semantics is relaxed, one without scope
    has that of the GPU.
    """
    semantics, scope, operation = _atomic_modifiers(modifiers)
    atomic = name in ("atom", "red")
    hints = [m.partition("::")[2] for m in modifiers if m.startswith(("L1::", "L2::"))]
    eviction = [hint for hint in hints if hint.startswith(("evict_", "no_allocate"))]
    caches = [m for m in modifiers if m in _CACHES] if name != "wmma" else []
    return AccessModifiers(
        cache=caches[0] if caches else "",
        eviction=eviction[0] if eviction else "",
        is_volatile="volatile" in modifiers,
        semantics=semantics or ("relaxed" if atomic else ""),
        scope=scope or ("gpu" if atomic else ""),
        operation=operation if atomic else "",
        is_returned=name == "atom",
    )


def _atomic_modifiers(words: Sequence[str]) -> tuple[str, str, str]:
    """Semantics, scope and operation, as far as named."""
    semantics, scope, operation = (
        next((word for word in words if word in vocabulary), "")
        for vocabulary in (_SEMANTICS, _SCOPES, _OPERATIONS)
    )
    return semantics, scope, operation
