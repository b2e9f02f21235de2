"""Layers of PyTorch that a model holds and calls become calls of the functions that they are.

``self.fc(x)`` with ``self.fc = nn.Linear(...)`` is
``torch.nn.functional.linear(x, self.fc.weight, self.fc.bias)``: a product that has operands, and so
are convolutions. Layers that are wrapped, hooked or bound again keep their call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    assigned_names,
    first_param,
    functions_in,
    nodes_within,
    parse_expression,
    render_code,
    render_module,
    replace_each,
    statements_of,
)
from solkit.tuner.proposers.rewriter.model_methods import attributes_made

_CONV = ("stride", "padding", "dilation", "groups")
_SETTINGS: dict[str, tuple[str, ...]] = {"Linear": (), **{f"Conv{d}d": _CONV for d in (1, 2, 3)}}
"""Layers, and the attributes that their functions get behind weight and bias."""
_PLAIN_PADDING = ("'zeros'", '"zeros"')
_WRAPS = ("register_", "parametrize", "weight_norm", "spectral_norm", "prune", "quantiz")
"""Words of a file by which a layer's call may do more than its function does."""


def with_plain_layers(tree: cst.Module) -> cst.Module:
    """Return the module whose classes call functions instead of such layers."""
    classes = [node for node in tree.body if isinstance(node, cst.ClassDef)]
    if not classes or not _imports_torch(tree):
        return tree
    code = render_module(tree)
    if any(word in code for word in _WRAPS):
        return tree
    if any(node.name.value in _SETTINGS for node in classes) or _imports_other_layers(tree):
        return tree
    pairs = [pair for node in classes for pair in _pairs_of(node)]
    innermost = [pair for pair in pairs if not _holds_other(pair[0], pairs)]
    return with_plain_layers(replace_each(tree, innermost)) if pairs else tree


def _holds_other(node: cst.CSTNode, pairs: Sequence[Swap]) -> bool:
    within = {id(part) for part in nodes_within(node) if part is not node}
    return any(id(old) in within for old, _ in pairs)


def _imports_torch(tree: cst.Module) -> bool:
    imports = [node for node in nodes_within(tree) if isinstance(node, cst.Import)]
    names = [render_code(alias).rstrip(",") for node in imports for alias in node.names]
    rebound = [s for s in tree.body if isinstance(s, cst.SimpleStatementLine)]
    return "torch" in names and "torch" not in assigned_names(*rebound)


def _imports_other_layers(tree: cst.Module) -> bool:
    """Tell whether a layer or ``nn`` of the file may be another than PyTorch's."""
    for node in nodes_within(tree):
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            module = "" if node.module is None else render_code(node.module)
            names = {render_code(a.asname.name if a.asname else a.name) for a in node.names}
            if ("nn" in names and module != "torch") or (
                names & set(_SETTINGS) and module not in ("torch.nn", "torch.nn.modules")
            ):
                return True
        elif isinstance(node, cst.FunctionDef) and node.name.value in (*_SETTINGS, "nn"):
            return True
    return bool({*_SETTINGS, "nn"} & set(assigned_names(*tree.body)))


def _pairs_of(node: cst.ClassDef) -> Iterator[Swap]:
    methods = functions_in(statements_of(node))
    layers = dict(_layers(node, methods["__init__"])) if "__init__" in methods else {}
    for name, method in methods.items():
        owner = first_param(method)
        if name == "__init__" or not owner:
            continue
        for call in nodes_within(method.body):
            if isinstance(call, cst.Call) and len(call.args) == 1 and not call.args[0].star:
                layer = render_code(call.func)
                attribute = layer.removeprefix(f"{owner}.")
                if layer != attribute and attribute in layers and call.args[0].keyword is None:
                    kind, may_add = layers[attribute]
                    values = [render_code(call.args[0].value), f"{layer}.weight"]
                    values += [f"{layer}.bias"] if may_add else []
                    values += [f"{word}={layer}.{word}" for word in _SETTINGS[kind]]
                    code = f"torch.nn.functional.{kind.lower()}({', '.join(values)})"
                    yield call, parse_expression(code)


def _layers(node: cst.ClassDef, init: cst.FunctionDef) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield attributes that are layers from ``__init__`` on: their kinds, and whether they add."""
    for name, call in attributes_made(node, init):
        module, _, kind = render_code(call.func).rpartition(".")
        if module in ("", "nn", "torch.nn") and kind in _SETTINGS and _pads_with_zeros(call):
            yield name, (kind, _may_add(call, kind))


def _may_add(call: cst.Call, kind: str) -> bool:
    """Tell whether a layer may have a bias."""
    words = {arg.keyword.value: render_code(arg.value) for arg in call.args if arg.keyword}
    plain = [render_code(arg.value) for arg in call.args if arg.keyword is None]
    place = 2 if kind == "Linear" else 7
    return words.get("bias", plain[place] if len(plain) > place else "True") != "False"


def _pads_with_zeros(call: cst.Call) -> bool:
    """Tell whether a convolution does no more than its function does: nor may ``**`` say so."""
    words = {arg.keyword.value: render_code(arg.value) for arg in call.args if arg.keyword}
    plain = [arg for arg in call.args if arg.keyword is None]
    is_known = len(plain) <= 8 and not any(arg.star for arg in call.args)
    return is_known and words.get("padding_mode", _PLAIN_PADDING[0]) in _PLAIN_PADDING
