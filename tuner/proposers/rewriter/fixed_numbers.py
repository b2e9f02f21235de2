"""Numbers that a kernel gets at run time, such as a window's size, become compile-time constants.

The compiler then writes loops over taps out, divides by multiplying, and knows which elements lie
next to each other. Triton compiles the function again for each value. So only settings change: what
a model holds as an attribute, and what a launcher writes as a number; and sizes by which indices
are divided, or that count the trips of a loop over single elements.

Where a launch's chance is 0, as of a dropout that is left out, random numbers decide nothing: each
is at least 0. It is 0 itself once in 2^31 draws, where ``>`` would say no. Powers by a number of
the launch are products (`_plain_powers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import following_names, single_values
from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expand_names,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import FLIPPED, comparison_parts, is_zero
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    launcher_definition,
)
from solkit.tuner.proposers.rewriter._plain_powers import with_plain_powers

_INTEGERS = ("i32", "constexpr")
"""Types of a launch's numbers as recorded: Triton makes a constant of 1 by itself."""
_INDICES = ("range", "tl.range", "tl.static_range")
_DIVISIONS = (cst.FloorDivide, cst.Modulo)


class FixedNumbers:
    """Integers that only indices and loops read become compile-time constants.

    Applies to parameters that were recorded as 32-bit integers and that no loaded value meets but
    to be divided by: such a value keeps its type then. A quotient of two constants would be rounded
    down and not towards 0, so numbers in one stay. Random numbers that are compared with a chance
    that the launch writes as 0 are not drawn.
    """

    kind = "fixed numbers"
    helps = ("instructions", "index arithmetic", "arithmetic instructions", "waits for loads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors("instructions", "latency")
        attributes, chosen = _attributes(text), dict[str, set[str]]()
        for launch in text.single:
            integers = _integers(launch, facts)
            settings = {name for name in integers if _is_setting(launch, name, attributes)}
            chosen[launch.function.name] = settings | (integers & _divisors(launch.function))
        certain, intents = dict[str, JitFunction | None](), list[str]()
        for launch in text.single:
            name = launch.function.name
            if (plain := _without_draws(launch)) is not None:
                launch = replace(launch, function=plain)
                intents.append(f"Random numbers decide nothing in {name}.")
            if (products := with_plain_powers(launch)) is not None:
                intents.append(f"Powers of {name} are products or roots: exponents are known.")
            certain[name] = products or plain
        if source := _with_constants(text, chosen, certain):
            listed = ", ".join(sorted(set().union(*chosen.values())))
            if listed:
                intents.append(
                    f"Known when the kernel is compiled, {listed} cost no divisions and no loops "
                    f"of unknown length; each value is compiled for itself{why}."
                )
            yield Variant(source, " ".join(intents))


def _with_constants(
    text: KernelText,
    chosen: Mapping[str, set[str]],
    certain: Mapping[str, JitFunction | None],
) -> str:
    """Return the file with parameters as compile-time constants; empty if nothing changes.

    Args:
        text: the file.
        chosen: the parameters, by function.
        certain: functions without draws that decide nothing, or with plain powers, if any.
    """
    functions = {
        name: _with_constant_params(certain[name] or launch.function, chosen[name])
        for launch in text.single
        if chosen[name := launch.function.name] or certain[name] is not None
    }
    return changed_text(text, functions=functions) if functions else ""


def _without_draws(launch: Launch) -> JitFunction | None:
    """Return a function whose random numbers are not compared with 0; ``None`` if none are."""
    function = launch.function
    zeros = {name for name, value in launch.arguments.items() if is_zero(value)}
    zeros = {name for name in zeros if not function.reassigned(name)}
    values, pairs = single_values(function.body, function.params), list[Swap]()
    for node in nodes_within(*function.body) if zeros else ():
        if not isinstance(node, cst.Comparison):
            continue
        first, sign, second = comparison_parts(node) or (node, "", node)
        if isinstance(first, cst.Name) and first.value in zeros:
            first, sign, second = second, FLIPPED.get(sign, ""), first
        if not (isinstance(second, cst.Name) and second.value in zeros and sign in FLIPPED):
            continue
        drawn = values.get(first.value, first) if isinstance(first, cst.Name) else first
        offset = argument_of(drawn, 1, "offset") if called_name(drawn) == "tl.rand" else None
        if offset is not None and names_within(offset) - {"tl"} <= {*values, *function.params}:
            # a block of the same shape, whose values the compiler knows
            code = render_code(parenthesized(offset))
            truth = parse_expression(f"{code} {'==' if sign[0] == '>' else '!='} {code}")
            pairs.append((node, truth.with_changes(lpar=node.lpar, rpar=node.rpar)))
    node = replace_each(function.node, pairs) if pairs else function.node
    return replace(function, node=node) if pairs else None


def _with_constant_params(function: JitFunction, names: set[str]) -> cst.FunctionDef:
    """Return a function with parameters as constants, and without other names for them."""
    node = _without_aliases(function, names)
    constant = cst.Annotation(parse_expression("tl.constexpr"))
    params = [
        param.with_changes(annotation=constant) if param.name.value in names else param
        for param in node.params.params
    ]
    return node.with_changes(params=node.params.with_changes(params=params))


def _without_aliases(function: JitFunction, names: set[str]) -> cst.FunctionDef:
    """Return a function that has no other names for some parameters: they would be variables."""
    own = function.body
    aliases = {
        binding.target: binding.value
        for statement in own
        if (binding := single_assignment(statement)) is not None
        and isinstance(binding.value, cst.Name)
        and binding.value.value in names
        and assigned_names(*own).count(binding.target) == 1
    }
    kept = [s for s in own if (a := single_assignment(s)) is None or a.target not in aliases]
    return with_body(function.node, [substitute_names(s, aliases) for s in kept])


# ------------------------------------------------------------------------------- which numbers


def _integers(launch: Launch, facts: Facts) -> set[str]:
    """Return a launch's integers that may be constants."""
    result, function = facts.brief.result, launch.function
    kernels = () if result is None else result.analysis.own
    records = {kernel.launch.name: kernel.launch for kernel in kernels}
    record = records.get(function.name)
    if record is None:
        return set()
    recorded = {
        name
        for name, bound in record.arguments.items()
        if isinstance(bound.value, int) and record.signature.get(name) in _INTEGERS
    }
    free = recorded & set(launch.arguments) - set(function.constants)
    free = {name for name in free if not function.reassigned(name)}
    plain = replace(function, node=_without_aliases(function, free))
    return free - _meeting_data(plain, free) - _in_constant_quotients(plain, free)


def _meeting_data(function: JitFunction, names: set[str]) -> set[str]:
    """Return names that are more to loaded values than what these are divided by.

    So are names that a function, a method or a choice gets by themselves: an index keeps its type
    whatever it is added to, and a constant has none.
    """
    data, constants = (
        following_names(function.body, calls=("tl.load",)),
        names | set(function.constants) | {"tl"},
    )
    met = set[str]()
    for node in nodes_within(*function.body):
        sides: list[Swap] = []
        if isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.Divide):
            sides = [(node.left, node.right), (node.right, node.left)]
        elif isinstance(node, cst.Comparison):
            parts = [node.left, *(target.comparator for target in node.comparisons)]
            sides = [(one, other) for one in parts for other in parts if one is not other]
        elif isinstance(node, cst.AugAssign):
            sides = [(node.value, node.target)]
        for one, other in sides:
            if names_within(one) <= constants and _holds_data(other, data):
                met |= names_within(one) & names
        if isinstance(node, cst.Call) and render_code(node.func) not in _INDICES:
            alone = [arg.value for arg in node.args if names_within(arg.value) <= constants]
            alone += [node.func] if isinstance(node.func, cst.Attribute) else []
            met |= names_within(*alone) & names
    return met


def _holds_data(node: cst.CSTNode, data: set[str]) -> bool:
    return bool(calls_within(node, "tl.load") or names_within(node) & data)


def _in_constant_quotients(function: JitFunction, names: set[str]) -> set[str]:
    """Return names in quotients whose dividends would be constants."""
    constants = names | set(function.constants)
    inside = set[str]()
    for node in nodes_within(*function.body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _DIVISIONS):
            within = names_within(node.left)
            inside |= names_within(node) & names if within <= constants else set()
    return inside


def _divisors(function: JitFunction) -> set[str]:
    """Return names that are all that an index is divided by, and lengths of loops over elements."""
    names = set[str]()
    values = {a.target: a.value for s in function.body if (a := single_assignment(s)) is not None}
    for node in nodes_within(*function.body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _DIVISIONS):
            names |= names_within(expand_names(node.right, values.get))
        loop = range_loop(node)
        if loop is not None and render_code(loop.step) == "1":
            names |= names_within(expand_names(loop.stop, values.get))
    return names


def _is_setting(launch: Launch, name: str, attributes: set[str]) -> bool:
    """Tell whether a launch's number is written down, or held by the model."""
    launcher = launch.launcher
    params = {p.name.value for p in launcher.params.params}

    def host_value(host: str) -> cst.BaseExpression | None:
        return None if host in params else launcher_definition(host, launcher)

    whole = expand_names(launch.arguments[name], host_value)
    plain = (cst.Name, cst.Attribute, cst.Call, cst.Integer, cst.Subscript)
    parts = [n for n in nodes_within(whole) if isinstance(n, cst.BaseExpression)]
    calls = {render_code(call.func) for call in calls_within(whole)}
    is_plain = all(isinstance(n, plain) for n in parts) and calls <= {"int"}
    return is_plain and names_within(whole) - {"int"} <= attributes


def _attributes(text: KernelText) -> set[str]:
    """Return parameters of ``kernel`` for which each call in a class gives an attribute."""
    params = [p.name.value for p in text.launcher.params.params]
    classes = [s for s in text.tree.body if isinstance(s, cst.ClassDef)]
    calls = calls_within(cst.Module(classes), text.launcher.name.value) if classes else []
    passed = [
        {
            param
            for param, arg in zip(params, call.args, strict=False)
            if not arg.star and arg.keyword is None and isinstance(arg.value, cst.Attribute)
        }
        for call in calls
    ]
    return set.intersection(*passed) if passed else set()
