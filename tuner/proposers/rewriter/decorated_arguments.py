"""Arguments that decorators and defaults give to launches are written where the launch is.

* Of ``triton.autotune`` the first configuration is taken, since SolKit tunes sizes. It stands in a
  list, a module's constant, a function that returns a list, or a comprehension. One that the file
  makes otherwise is taken as a launch got it.
* ``triton.heuristics`` computes arguments from others: these expressions become arguments.
* A parameter that a launch leaves out has a default, such as a block's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    is_docstring,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    small_statement,
    statements_of,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch, read_module

_AUTOTUNE = ("triton.autotune", "autotune")
_HEURISTICS = ("triton.heuristics", "heuristics")
_WORDS = frozenset(
    """configs key warmup rep use_cuda_graph cache_results do_bench reset_to_zero
    restore_value""".split()
)
"""Arguments of ``autotune`` that do not choose: the last two undo what timing a kernel did."""
_TUNED_OPTIONS = ("num_warps", "num_stages")
_LITERALS = ("True", "False")
_NUMBERS = (cst.Integer, cst.Float)


Constants = Mapping[str, Mapping[str, str]]
"""Code of the compile-time constants and options that a launch got, by function and name."""


def with_decorated_arguments(tree: cst.Module, recorded: Constants) -> cst.Module:
    """Return the module whose functions get such arguments from their launches.

    Args:
        tree: the module.
        recorded: what launches got.
    """
    text = read_module(tree)
    if text is None:
        return tree
    pairs: list[Swap] = []
    live = {launch.function.name for launch in text.live}
    for function in (f for name, f in text.functions.items() if name in live):
        own = recorded.get(function.name, {})
        pairs += _with_plain_launches(function, text, own) if function.tuned else []
        pairs += [] if function.tuned else _with_defaults(function, text)
    return replace_each(tree, pairs) if pairs else tree


def _with_defaults(function: JitFunction, text: KernelText) -> Iterator[Swap]:
    """Yield changes that write the defaults of parameters which launches leave out."""
    defaults = {
        param.name.value: render_code(param.default)
        for param in function.node.params.params
        if isinstance(param.default, _NUMBERS)
    }
    for launch in text.launches_of(function.name):
        missing = {name: code for name, code in defaults.items() if name not in launch.arguments}
        if missing and not any(arg.star for arg in launch.call.args):
            yield launch.call, _with_arguments(launch, missing)


def _with_plain_launches(
    function: JitFunction, text: KernelText, recorded: Mapping[str, str]
) -> list[Swap]:
    """Return changes that take such decorators off a function; none if they say more."""
    marks = [mark.decorator for mark in function.node.decorators]
    tuned = [mark for mark in marks if _is_autotune(mark, text)]
    computed = [mark for mark in marks if called_name(mark) in _HEURISTICS]
    launches = text.launches_of(function.name)
    ordered = [*tuned, *computed]
    is_plain = len(tuned) <= 1 and len(computed) <= 1 and marks[: len(ordered)] == ordered
    if not ordered or not is_plain or len(marks) != len(ordered) + 1:
        return []
    if not launches or not text.is_seen(function.name, len(launches)):
        return []
    if "jit" not in render_code(marks[-1]):
        return []
    rules = _rules(cst.ensure_type(computed[0], cst.Call), text) if computed else {}
    if rules is None or not all(map(_chooses_freely, tuned)):
        return []
    first = _first_configuration(cst.ensure_type(tuned[0], cst.Call), text) if tuned else {}
    first = _as_recorded(function, launches, rules, recorded) if first is None else first
    if first is None:
        return []
    added = [_added_arguments(launch, first, rules) for launch in launches]
    plain = function.node.with_changes(decorators=function.node.decorators[-1:])
    pairs: list[Swap] = [(function.node, plain)]
    for launch, values in zip(launches, added, strict=True):
        if values is None:
            return []
        pairs.append((launch.call, _with_arguments(launch, values)))
    return pairs


def _with_arguments(launch: Launch, added: Mapping[str, str]) -> cst.Call:
    args = [
        render_code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in launch.call.args
    ]
    args += [f"{name}={value}" for name, value in added.items()]
    line = parse_statement(f"{render_code(launch.call.func)}({', '.join(args)})")
    return next(node for node in nodes_within(line) if isinstance(node, cst.Call))


def _added_arguments(
    launch: Launch, first: Mapping[str, str], rules: Mapping[str, cst.Lambda]
) -> dict[str, str] | None:
    """Return a launch's added arguments, as code; ``None`` if one is there or cannot be read."""
    own = {**launch.arguments, **launch.options}
    if (set(first) | set(rules)) & set(own):
        return None
    values_of: dict[str, cst.BaseExpression] = {
        **own,
        **{name: parse_expression(value) for name, value in first.items()},
    }
    added = dict(first)
    for name, rule in rules.items():
        value = _of_arguments(rule, values_of, launch.launcher)
        if value is None:
            return None
        values_of[name] = value
        added[name] = render_code(value)
    return added


def _of_arguments(
    rule: cst.Lambda, values_of: Values, launcher: cst.FunctionDef
) -> cst.BaseExpression | None:
    """Return what a heuristic computes, of the launcher's expressions."""
    of = rule.params.params[0].name.value
    pairs: list[Swap] = []
    for node in nodes_within(rule.body):
        if isinstance(node, cst.Subscript) and render_code(node.value) == of:
            key = render_code(node.slice[0]).strip("'\"")
            if len(node.slice) != 1 or key not in values_of:
                return None
            pairs.append((node, parenthesized(values_of[key])))
    rest = names_within(rule.body) - {of}
    bound = {p.name.value for p in (*launcher.params.params, *launcher.params.kwonly_params)}
    hidden = bound | set(assigned_names(*statements_of(launcher)))
    uses = sum(isinstance(n, cst.Name) and n.value == of for n in nodes_within(rule.body))
    if rest & hidden or uses != len(pairs):
        return None
    body = replace_each(rule.body, pairs) if pairs else rule.body
    return body if isinstance(body, cst.BaseExpression) else None


# ------------------------------------------------------------------------------- heuristics


def _rules(call: cst.Call, text: KernelText) -> dict[str, cst.Lambda] | None:
    """Return the functions of ``triton.heuristics`` by the argument that each computes."""
    values = argument_of(call, 0, "values")
    if isinstance(values, cst.Name):
        values = text.constant(values.value)
    if not isinstance(values, cst.Dict) or len(call.args) != 1:
        return None
    rules = {}
    for element in values.elements:
        key = element.key if isinstance(element, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString):
            return None
        rule = _as_lambda(element.value, text)
        if rule is None or len(rule.params.params) != 1:
            return None
        rules[str(key.evaluated_value)] = rule
    return rules


def _as_lambda(node: cst.BaseExpression, text: KernelText) -> cst.Lambda | None:
    """Return a lambda, or a function of the module that only returns, as one."""
    if isinstance(node, cst.Lambda):
        return node
    value = _returned(render_code(node), text) if isinstance(node, cst.Name) else None
    if value is None:
        return None
    function, result = value
    params = ", ".join(p.name.value for p in function.params.params)
    function_of = parse_expression(f"lambda {params}: {render_code(result)}")
    return function_of if isinstance(function_of, cst.Lambda) else None


def _returned(name: str, text: KernelText) -> tuple[cst.FunctionDef, cst.BaseExpression] | None:
    """Return a function of the module with the expression that is all that it returns."""
    nodes = [s for s in text.tree.body if isinstance(s, cst.FunctionDef) and s.name.value == name]
    if len(nodes) != 1 or nodes[0].decorators:
        return None
    body = [s for s in statements_of(nodes[0]) if not is_docstring(s)]
    only = small_statement(body[0]) if len(body) == 1 else None
    if not isinstance(only, cst.Return) or only.value is None:
        return None
    return nodes[0], only.value


# ------------------------------------------------------------------------------- autotuning


def _is_autotune(mark: cst.BaseExpression, text: KernelText) -> bool:
    name = called_name(mark)
    value = text.constant(name)
    return (name if value is None else render_code(value)) in _AUTOTUNE


def _chooses_freely(mark: cst.BaseExpression) -> bool:
    """Tell whether a call of ``autotune`` may take any of its configurations at any launch."""
    args = cst.ensure_type(mark, cst.Call).args
    return all(arg.keyword is None or arg.keyword.value in _WORDS for arg in args)


def _as_recorded(
    function: JitFunction,
    launches: Sequence[Launch],
    rules: Mapping[str, cst.Lambda],
    recorded: Mapping[str, str],
) -> dict[str, str] | None:
    """Return what a launch got that no argument and no heuristic gives, as code."""
    passed = {frozenset((*launch.arguments, *launch.options)) for launch in launches}
    decided = {*rules, *(name for names in passed for name in names)}
    missing = [name for name in (*function.params, *_TUNED_OPTIONS) if name not in decided]
    is_whole = len(passed) == 1 and {*missing} <= recorded.keys()
    return {name: recorded[name] for name in missing} if is_whole else None


def _first_configuration(call: cst.Call, text: KernelText) -> dict[str, str] | None:
    """Return the arguments of the first configuration, as code."""
    configs = argument_of(call, 0, "configs")
    if isinstance(configs, cst.Name):
        configs = text.constant(configs.value)
    if isinstance(configs, cst.Call) and not configs.args:
        returned = _returned(called_name(configs), text)
        configs = None if returned is None else returned[1]
    first = _first_element(configs)
    if first is None or called_name(first) not in ("triton.Config", "Config"):
        return None
    return _config_values(cst.ensure_type(first, cst.Call))


def _first_element(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return the first element of a list, or of a comprehension over literals."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return node.elements[0].value if node.elements else None
    if not isinstance(node, cst.ListComp):
        return None
    values: dict[str, cst.BaseExpression] = {}
    loop: cst.CompFor | None = node.for_in
    while loop is not None:
        first = _first_element(loop.iter)
        if first is None or loop.ifs or not isinstance(loop.target, cst.Name):
            return None
        values[loop.target.value] = first
        loop = loop.inner_for_in
    return substitute_names(node.elt, values)


def _config_values(config: cst.Call) -> dict[str, str] | None:
    kwargs = argument_of(config, 0, "kwargs")
    if not isinstance(kwargs, cst.Dict):
        return None
    values = dict(_entries(kwargs))
    for place, name in enumerate(_TUNED_OPTIONS, start=1):
        if (option := argument_of(config, place, name)) is not None:
            values[name] = render_code(option)
    words = {arg.keyword.value for arg in config.args if arg.keyword is not None}
    plain = words <= {"kwargs", *_TUNED_OPTIONS} and len(values) >= len(kwargs.elements)
    is_known = all(value.isdigit() or value in _LITERALS for value in values.values())
    return values if plain and is_known else None


def _entries(node: cst.Dict) -> Iterator[tuple[str, str]]:
    for element in node.elements:
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
            yield str(element.key.evaluated_value), render_code(element.value)
