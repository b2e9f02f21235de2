"""Changes to a kernel file that several rewrites make: functions, launches, parameters, programs.

A *program* of a grid axis may take several indices of it: its function is lifted along that axis.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst as cst

from solkit.core import Value
from solkit.tuner.proposers.rewriter._assignments import assignments_in, values_of
from solkit.tuner.proposers.rewriter._lift import lifted_body
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    functions_in,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    plain_assignment,
    range_loop,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import both_orders, divisions_of, is_operation
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
)
from solkit.tuner.proposers.rewriter._values import (
    accessed_params,
    is_runtime_size,
    next_power_of_two,
)

MOST_OF_AXIS = 65535
"""Programs along axes 1 and 2 of a grid (CUDA C++ Programming Guide, "Compute Capabilities")."""
_WIDTH = 96  # of a line of code in a launcher


@dataclass(frozen=True)
class Parameter:
    """A keyword-only parameter of the launcher, to be tuned.

    Attributes:
        name: of the parameter.
        default: what it is unless tuned.
        values: what may be tried; if the file's SPACE lists some already, both count.
        most: of the values that SPACE lists; ``None`` for all.
    """

    name: str
    default: int
    values: tuple[int, ...]
    most: int | None = None


def changed_text(
    text: KernelText,
    functions: Mapping[str, cst.FunctionDef | None] | None = None,
    added: Mapping[str, Sequence[cst.FunctionDef]] | None = None,
    launches: Sequence[tuple[cst.CSTNode, Body]] = (),
    parameters: Iterable[Parameter] = (),
) -> str:
    """Return the file's text with changes: see `changed_tree`."""
    return render_module(changed_tree(text, functions, added, launches, parameters))


def changed_tree(
    text: KernelText,
    functions: Mapping[str, cst.FunctionDef | None] | None = None,
    added: Mapping[str, Sequence[cst.FunctionDef]] | None = None,
    launches: Sequence[tuple[cst.CSTNode, Body]] = (),
    parameters: Iterable[Parameter] = (),
) -> cst.Module:
    """Return the file with changes.

    Args:
        text: the file.
        functions: new definitions of functions by name; ``None`` removes one.
        added: functions to be added after others, by the others' names.
        launches: statements of launchers, each with what replaces it.
        parameters: of the launcher `kernel`.
    """
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    swaps = {id(old): list(new) for old, new in launches}
    for statement in text.tree.body:
        rewritten: cst.CSTNode = statement
        if isinstance(statement, cst.FunctionDef):
            new = (functions or {}).get(statement.name.value, statement)
            if new is None:
                continue
            rewritten = with_each(new, swaps) if swaps else new
        body.append(cast("cst.BaseStatement", rewritten))
        if isinstance(statement, cst.FunctionDef):
            body += (added or {}).get(statement.name.value, [])
    tree = text.tree.with_changes(body=body)
    for parameter in parameters:
        tree = _with_parameter(tree, parameter)
    return tree


def in_statement(tree: cst.Module, statement: cst.CSTNode, pairs: Sequence[Swap]) -> cst.Module:
    """Return the module with parts of one of its statements, each found by identity, replaced."""
    body = [replace_each(other, pairs) if other is statement else other for other in tree.body]
    return tree.with_changes(body=body)


# ------------------------------------------------------------------------------- functions


def renamed_function(function: JitFunction, name: str, body: Body) -> cst.FunctionDef:
    """Return a function under another name with another body."""
    node = with_body(function.node, body)
    leading = [cst.EmptyLine(), cst.EmptyLine()]
    return node.with_changes(name=cst.Name(name), leading_lines=leading)


def with_params(
    node: cst.FunctionDef, added: Sequence[str] = (), constants: Sequence[str] = ()
) -> cst.FunctionDef:
    """Add parameters to a Triton function: plain ones ahead of the compile-time constants."""
    params = [
        render_code(param.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        for param in node.params.params
    ]
    plain = next((i for i, p in enumerate(params) if ":" in p or "=" in p), len(params))
    params[plain:plain] = added
    end = next((i for i, p in enumerate(params) if "=" in p), len(params))
    params[end:end] = [f"{name}: tl.constexpr" for name in constants]
    head = f"def {node.name.value}({', '.join(params)}):"
    if len(head) > _WIDTH:
        head = f"def {node.name.value}(\n" + "".join(f"    {p},\n" for p in params) + "):"
    header = cst.ensure_type(parse_statement(f"{head}\n    pass\n"), cst.FunctionDef)
    return node.with_changes(
        params=header.params, whitespace_before_params=header.whitespace_before_params
    )


# ------------------------------------------------------------------------------- launches


def launch_line(
    name: str,
    grid: str,
    arguments: Mapping[str, str],
    options: Mapping[str, str],
    constants: Iterable[str] = (),
) -> cst.BaseStatement:
    """Return the statement that launches a function: constants by keyword, others by position.

    What follows an argument by keyword is by keyword, too, as Python wants it.
    """
    keyword, by_keyword, parts = set(constants), False, []
    for param, value in arguments.items():
        by_keyword |= param in keyword
        parts.append(f"{param}={value}" if by_keyword else value)
    parts += [f"{k}={v}" for k, v in options.items()]
    short = f"{name}[{grid}]({', '.join(parts)})"
    if len(short) <= _WIDTH - 8:
        return parse_statement(short)
    listed = "".join(f"    {part},\n" for part in parts)
    return parse_statement(f"{name}[{grid}](\n{listed})")


def arguments_of(launch: Launch) -> dict[str, str]:
    """Return a launch's arguments as code, in the order of the function's parameters."""
    arguments = launch.arguments
    return {p: render_code(arguments[p]) for p in launch.function.params if p in arguments}


def options_of(launch: Launch) -> dict[str, str]:
    """Return a launch's options as code."""
    return {name: render_code(value) for name, value in launch.options.items()}


def own_grid(launch: Launch) -> str:
    """Return a launch's grid without the name that the launch for other sizes shares with it."""
    if launch.axes is None or not isinstance(launch.grid, cst.Name):
        return render_code(launch.grid)
    return grid_of(map(render_code, launch.axes))


def device_tensor(launch: Launch) -> str:
    """Return a tensor of the launcher, for its device: one that is passed to the kernel.

    A parameter, or what its launcher calls by a name of its own, such as ``x.contiguous()``.
    """
    own = [p.name.value for p in launch.launcher.params.params]
    accessed = accessed_params(launch.function)
    passed = {
        render_code(value): name in accessed
        for name, value in launch.arguments.items()
        if name not in launch.function.constants
    }
    of_caller = [name for name in own if name in passed]
    tensors = [name for name in of_caller if passed[name]]
    tensors += [name for name in passed if _is_tensor(name, launch.launcher)]
    return next(iter([*tensors, *of_caller]), "")  # the last of these may be numbers


def _is_tensor(name: str, launcher: cst.FunctionDef) -> bool:
    """Tell whether each value that a launcher gives a name is a tensor's: new, or of another."""
    values = values_of(name, walk_statements(statements_of(launcher)))
    whole = len(values) == assigned_names(*statements_of(launcher)).count(name) > 0
    return whole and all(_makes_tensor(value) for value in values)


def _makes_tensor(node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    method = node.func.attr.value
    return method in (_NEW_TENSORS if render_code(node.func.value) == "torch" else _SAME_TENSORS)


_NEW_TENSORS = frozenset(
    "empty zeros ones full empty_like zeros_like ones_like full_like empty_strided".split()
)
_SAME_TENSORS = frozenset("contiguous reshape view flatten float half bfloat16 permute".split())


def guarded_launch(
    condition: str,
    launch: cst.BaseStatement,
    original: cst.BaseStatement,
    before: Body = (),
    ahead: Body = (),
) -> list[cst.BaseStatement]:
    """Return ``if condition: before, launch else: ahead, original``."""
    node = cst.ensure_type(
        parse_statements(f"if {condition}:\n    pass\nelse:\n    pass\n")[0], cst.If
    )
    other = cst.ensure_type(node.orelse, cst.Else)
    plain = original.with_changes(leading_lines=[])
    kept = getattr(original, "leading_lines", ())
    return [
        with_body(node, [*before, launch]).with_changes(
            orelse=with_body(other, [*ahead, plain]), leading_lines=kept
        )
    ]


# ------------------------------------------------------------------------------- parameters


def parameter(launch: Launch, text: KernelText, requested: Parameter) -> Parameter:
    """Return the parameter under a name that is free in the launcher."""
    taken = {p.name.value for p in launch.launcher.params.kwonly_params}
    free = requested.name if requested.name not in taken else text.fresh(requested.name)
    return Parameter(free, requested.default, requested.values)


def _with_parameter(tree: cst.Module, parameter: Parameter) -> cst.Module:
    launcher = functions_in(tree.body)["kernel"]
    extended = launcher.with_changes(params=_with_keyword(launcher.params, parameter))
    tree = in_statement(tree, launcher, [(launcher, extended)])
    return _with_values(tree, parameter)


def _with_keyword(params: cst.Parameters, parameter: Parameter) -> cst.Parameters:
    """Return parameters with a keyword-only one, or with its new default."""
    keyword = list(params.kwonly_params)
    default = parse_expression(str(parameter.default))
    for index, param in enumerate(keyword):
        if param.name.value == parameter.name:
            keyword[index] = param.with_changes(default=default)
            return params.with_changes(kwonly_params=keyword)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    if keyword and not isinstance(keyword[-1].comma, cst.Comma):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        keyword[-1] = keyword[-1].with_changes(comma=comma)
    keyword.append(cst.Param(cst.Name(parameter.name), default=default, equal=equal))
    star = params.star_arg
    if not isinstance(star, (cst.Param, cst.ParamStar)):
        star = cst.ParamStar()
    return params.with_changes(kwonly_params=keyword, star_arg=star)


def with_defaults(text: KernelText, values: Mapping[str, Value]) -> str:
    """Return the file whose launcher's keyword parameters have these defaults."""
    params = text.launcher.params
    keyword = [
        param.with_changes(default=parse_expression(repr(values[param.name.value])))
        if values.get(param.name.value) is not None
        else param
        for param in params.kwonly_params
    ]
    changed = text.launcher.with_changes(params=params.with_changes(kwonly_params=keyword))
    return render_module(in_statement(text.tree, text.launcher, [(text.launcher, changed)]))


def _with_values(tree: cst.Module, parameter: Parameter) -> cst.Module:
    for statement in tree.body:
        binding = single_assignment(statement)
        if binding is not None and binding.target == "SPACE":
            if not isinstance(binding.value, cst.Dict):
                return tree
            extended = _extend_space_statement(statement, binding.value, parameter)
            return in_statement(tree, statement, [(statement, extended)])
    space = parse_statement(
        f'SPACE = {{"{parameter.name}": {_sorted_values(parameter.values, parameter.default)}}}'
    )
    body = list(tree.body)
    place = next(
        i
        for i, statement in enumerate(body)
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef))
    )
    return tree.with_changes(body=[*body[:place], space, *body[place:]])


def _sorted_values(values: Iterable[int], default: int) -> str:
    return repr(sorted({*values, default}))


def _extend_space_statement(
    statement: cst.BaseStatement, space: cst.Dict, parameter: Parameter
) -> cst.BaseStatement:
    """Return the assignment of SPACE with one parameter more, or more values of it."""
    entries: dict[str, str] = {}
    for element in space.elements:
        if not isinstance(element, cst.DictElement):
            return statement
        entries[render_code(element.key)] = render_code(element.value)
    key = f'"{parameter.name}"'
    present = _integer_literals(parse_expression(entries[key])) if key in entries else set()
    if present is not None:
        present = {v for v in present if parameter.most is None or v <= parameter.most}
        entries[key] = _sorted_values({*parameter.values, *present}, parameter.default)
    text = ", ".join(f"{name}: {values}" for name, values in entries.items())
    if len(text) > _WIDTH - len("SPACE = {}"):
        text = "".join(f"\n    {name}: {values}," for name, values in entries.items()) + "\n"
    leading = getattr(statement, "leading_lines", ())
    return _space_statement(text).with_changes(leading_lines=leading)


@functools.lru_cache(256)  # proposals share most of their parameters
def _space_statement(entries: str) -> cst.BaseStatement:
    return parse_statement(f"SPACE = {{{entries}}}")


def with_fixed_parameters(text: KernelText, names: Iterable[str]) -> str:
    """Return the text with these keyword parameters of the launcher fixed at their defaults.

    They are tuned no more. A file that rules some choices out, or whose SPACE is more than a plain
    dictionary, stays as it is.
    """
    of = {p.name.value: p.default for p in text.launcher.params.kwonly_params}
    values = {name: value for name in names if isinstance(value := of.get(name), cst.Integer)}
    space = _plain_space(text.tree)
    if not values or space is None:
        return render_module(text.tree)
    launcher = text.launcher
    remaining = [p for p in launcher.params.kwonly_params if p.name.value not in values]
    star = launcher.params.star_arg if remaining else cst.MaybeSentinel.DEFAULT
    if remaining:
        remaining[-1] = remaining[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    params = launcher.params.with_changes(kwonly_params=remaining, star_arg=star)
    changed = launcher.with_changes(params=params, body=substitute_names(launcher.body, values))
    pairs: list[Swap] = [(launcher, changed)]
    pairs += [
        (literal, literal.with_changes(elements=_space_entries(literal, values)))
        for literal in space
    ]
    return render_module(replace_each(text.tree, pairs))


def params_of_original(launch: Launch, *changed: str) -> set[str]:
    """Return the launcher's parameters that only the original launch uses from now on.

    They change nothing at the shape that is tuned, so they are not tuned.

    Args:
        launch: the original.
        changed: names of its arguments and options that differ in the new launch, or ``"grid"``.
    """
    own = {param.name.value for param in launch.launcher.params.kwonly_params}
    values = {**launch.arguments, **launch.options}
    replaced = names_within(*(node for name, node in values.items() if name in changed))
    kept = [value for name, value in values.items() if name not in changed]
    within = {id(node) for node in nodes_within(launch.statement)}
    elsewhere = [
        statement for statement in statements_of(launch.launcher) if id(statement) not in within
    ]
    kept += [] if "grid" in changed else [launch.grid]
    return (own & replaced) - names_within(*kept, *elsewhere)


def listed_space(text: KernelText) -> dict[str, list[Value]]:
    """Return the values of each parameter that SPACE lists; empty if it is more than literals."""
    for literal in _plain_space(text.tree) or ():
        with contextlib.suppress(ValueError):
            return dict(ast.literal_eval(render_code(literal)))
    return {}


def _plain_space(tree: cst.Module) -> list[cst.Dict] | None:
    """Return the dictionary that is SPACE; ``None`` for none, or if it or ``valid`` says more."""
    functions = (cst.FunctionDef, cst.ClassDef)
    rest = [statement for statement in tree.body if not isinstance(statement, functions)]
    defined = {statement.name.value for statement in tree.body if isinstance(statement, functions)}
    if "valid" in defined | names_within(*rest):
        return None
    assigned_to = [statement for statement in rest if "SPACE" in names_within(statement)]
    values = [
        binding.value
        for statement in assigned_to
        if (binding := single_assignment(statement)) is not None
    ]
    plain = [
        value
        for value in values
        if isinstance(value, cst.Dict)
        and all(isinstance(e, cst.DictElement) for e in value.elements)
    ]
    return plain if len(plain) == len(assigned_to) <= 1 else None


def _space_entries(space: cst.Dict, without: Iterable[str]) -> list[cst.BaseDictElement]:
    gone = {repr(name) for name in without} | {f'"{name}"' for name in without}
    every = space.elements
    kept = [e for e in every if not (isinstance(e, cst.DictElement) and render_code(e.key) in gone)]
    if kept and not isinstance(space.lbrace.whitespace_after, cst.ParenthesizedWhitespace):
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return kept


def _integer_literals(node: cst.BaseExpression) -> set[int] | None:
    if not isinstance(node, cst.List):
        return None
    values = [element.value for element in node.elements]
    if not all(isinstance(value, cst.Integer) for value in values):
        return None
    return {int(cst.ensure_type(value, cst.Integer).value, 0) for value in values}


def has_assignment(launcher: cst.FunctionDef, name: str) -> cst.BaseStatement | None:
    """Return the statement of a launcher's body that assigns a name."""
    for statement in statements_of(launcher):
        binding = single_assignment(statement)
        if binding is not None and binding.target == name:
            return statement
    return None


# ------------------------------------------------------------------------------- programs


_PROGRAM = "tl.program_id"


def program_axis(node: cst.CSTNode) -> int | None:
    """Return the axis that ``tl.program_id`` asks for; ``None`` for other nodes."""
    return grid_axis(node) if called_name(node) == _PROGRAM else None


def grid_axis(node: cst.CSTNode) -> int | None:
    """Return the axis of an index, or of a number, of programs; ``None`` for other nodes."""
    is_grid = called_name(node) in (_PROGRAM, "tl.num_programs")
    return integer_literal(argument_of(node, 0, "axis")) if is_grid else None


def axis_name(function: JitFunction, axis: int) -> str:
    """Return the name that holds the program's index along an axis; empty if none does."""
    for statement in function.body:
        binding = single_assignment(statement)
        if (
            binding is not None
            and not function_reassigns(function, binding.target)
            and program_axis(binding.value) == axis
        ):
            return binding.target
    return ""


def with_named_programs(launch: Launch) -> Launch:
    """Return a launch whose function reads the program's index along each axis once, by a name."""
    function = launch.function
    calls = calls_within(function.node, "tl.program_id")
    axes = [grid_axis(call) for call in calls]
    names = {axis: axis_name(function, axis) for axis in axes if axis is not None}
    if None in axes or (all(names.values()) and len(calls) == len(names)):
        return launch
    taken = set(function.names)
    names = {axis: free_name(f"program_{axis}", taken) for axis in sorted(names)}
    head = [parse_statement(f"{name} = tl.program_id({axis})") for axis, name in names.items()]
    swaps: list[Swap] = [
        (call, cst.Name(names[axis])) for call in calls if (axis := grid_axis(call)) is not None
    ]
    body = [*head, *(replace_each(statement, swaps) for statement in function.body)]
    return replace(launch, function=replace(function, node=with_body(function.node, body)))


def function_reassigns(function: JitFunction, name: str) -> bool:
    """Tell whether a name is assigned more than once."""
    bindings = [a for a in assignments_in(function.body) if a.target == name]
    return len(bindings) > 1


def tile_constants(function: JitFunction) -> dict[str, int]:
    """Return the compile-time constants that tile an axis of the grid, each with its axis.

    Such a constant multiplies the program's index: ``tl.program_id(0) * BLOCK``.
    """
    constants: dict[str, int] = {}
    for axis in range(3):
        names = {axis_name(function, axis), _swizzled_name(function, axis)} - {""}
        for one, other in _factors_within(function.node):
            mine = render_code(one) in names or program_axis(one) == axis
            if mine and render_code(other) in function.constants:
                constants[render_code(other)] = axis
    return constants


def _swizzled_name(function: JitFunction, axis: int) -> str:
    """Return the name of an axis's index after ``tl.swizzle2d``; empty if there is none.

    It numbers the same programs in another order, if its sizes are those of the grid.
    """
    counts = {f"tl.num_programs({axis})"}
    for statement in function.body:
        binding = single_assignment(statement)
        if binding is not None and render_code(binding.value) in counts:
            counts.add(binding.target)
        target, value = plain_assignment(statement) or (None, None)
        if value is None or called_name(value) != "tl.swizzle2d":
            continue
        size = argument_of(value, 2 + axis)
        if size is not None and render_code(size) in counts and isinstance(target, cst.Tuple):
            return render_code(target.elements[axis].value)
    return ""


def grid_constants(launch: Launch) -> dict[str, int]:
    """Return those of `tile_constants` that the grid follows, or may follow.

    In ``row * K`` with as many programs as rows, `K` is a stride: another one would be wrong.
    """
    return {
        name: axis
        for name, axis in tile_constants(launch.function).items()
        if name not in launch.arguments or _may_follow(launch, axis, launch.arguments[name])
    }


def _may_follow(launch: Launch, axis: int, value: cst.BaseExpression) -> bool:
    """Tell whether an axis of the grid may be computed from a constant's value."""
    axes = launch.axes
    if axes is None or axis >= len(axes):
        return True
    code, pending, seen = render_code(value), [axes[axis]], set[str]()
    while pending:
        for node in nodes_within(pending.pop()):
            if render_code(node) == code:
                return True
            if isinstance(node, cst.Call) and called_name(node).split(".")[-1] not in _SIZE_CALLS:
                return True
            if isinstance(node, cst.Name) and node.value not in seen:
                seen.add(node.value)
                definition = launcher_definition(node.value, launch.launcher)
                pending += [] if definition is None else [definition]
    return False


_SIZE_CALLS = ("cdiv", "min", "max", "next_power_of_2", "numel", "size", "stride", "dim")


def block_constants(function: JitFunction) -> set[str]:
    """Return the compile-time constants that are the size of a block at a place that is computed.

    As in ``pid_m * BLOCK + tl.arange(0, BLOCK)`` where ``pid_m`` follows from the program's index.
    """
    ranges = calls_within(function.node, "tl.arange")
    sizes = {
        render_code(end) for call in ranges if (end := argument_of(call, 1, "end")) is not None
    }
    constants = set()
    for one, other in _factors_within(function.node):
        is_place = isinstance(one, cst.Name) or is_operation(one, cst.FloorDivide, cst.Modulo)
        if is_place and render_code(other) in sizes & function.constants:
            constants.add(render_code(other))
    return constants


def _factors_within(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield the factors of each product of two, in both orders."""
    for part in nodes_within(node):
        yield from both_orders(part, cst.Multiply)


def grid_with(axes: Sequence[cst.BaseExpression], axis: int, changed_to: str) -> str:
    """Return the code of a grid with one axis changed."""
    return grid_of(changed_to if i == axis else render_code(size) for i, size in enumerate(axes))


def grid_of(sizes: Iterable[str]) -> str:
    """Return the code of a grid with these sizes."""
    listed = list(sizes)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def group_divisors(function: JitFunction, axis: int) -> list[str]:
    """Return divisors of the program's index along an axis: what shares a quotient is a group.

    As in ``head // GROUP``, where the heads of a group read the same keys.
    """
    names = {axis_name(function, axis)} - {""}
    divisors: dict[str, None] = {}
    for node in nodes_within(function.node):
        if not is_operation(node, cst.FloorDivide):
            continue
        mine = render_code(node.left) in names or program_axis(node.left) == axis
        if mine and is_runtime_size(node.right, function):
            divisors.setdefault(render_code(node.right))
    return list(divisors)


def _used_once(body: Body, valid: str) -> list[cst.BaseStatement]:
    """Return statements in which what a loop reduces is read once, to be masked.

    Triton up to 3.7 does not compile a reduction of a block's rows in a loop whose result is used
    twice: an assertion of its pass `OptimizeThreadLocality` fails.
    """
    result: list[cst.BaseStatement] = []
    for place, statement in enumerate(body):
        result.append(statement)
        later = body[place + 1 :]
        for name in _reduced_names(statement):
            if sum(count_uses(other, name) for other in later) > 1:
                mask = valid + _inner_axes(name, body[:place])
                result += parse_statements(f"{name} = tl.where({mask}, {name}, 0)\n")
    return result


def _inner_axes(name: str, before: Body) -> str:
    """Return the index that gives a mask over rows the axes that a block has behind them."""
    values = values_of(name, before)
    if not values or called_name(values[-1]) not in ("tl.zeros", "tl.full"):
        return ""
    shape = argument_of(values[-1], 0, "shape")
    axes = len(shape.elements) - 1 if isinstance(shape, (cst.Tuple, cst.List)) else 0
    return f"[:{', None' * axes}]" if axes else ""


def _reduced_names(statement: cst.BaseStatement) -> list[str]:
    """Return names that a loop updates by what it reduces."""
    loop = range_loop(statement)
    return [
        binding.target
        for binding in assignments_in(() if loop is None else loop.body)
        if binding.target in names_within(binding.value)
        and calls_within(binding.value, "tl.sum", "tl.max", "tl.min", "tl.reduce")
    ]


def lifted_axis(
    text: KernelText, launch: Launch, axis: int, width: Parameter, group: str = ""
) -> str:
    """Return the file with the programs along an axis taken several at a time by one.

    Args:
        text: the file.
        launch: of the function to be lifted.
        axis: of the grid.
        width: how many a program takes.
        group: a divisor of the index; if given, a program takes only those with one quotient.

    Raises:
        CannotLiftError: the function has something that cannot be lifted.
    """
    function, axes = launch.function, launch.axes
    if axes is None or axis >= len(axes):
        raise CannotLiftError("a grid that cannot be read")
    name, body = _with_named_index(function, axis)
    count, valid = text.fresh(f"n_{name}"), text.fresh(f"{name}_mask")
    body = [_with_count(statement, axis, count) for statement in body]
    place = next(i for i, s in enumerate(body) if (a := single_assignment(s)) and a.target == name)
    if any(name in names_within(statement) for statement in body[:place]):
        raise CannotLiftError(name)
    size = render_code(axes[axis])
    programs = f"triton.cdiv({size}, {width.name})"
    if group:
        members = in_launcher(parse_expression(group), launch)
        if members is None:
            raise CannotLiftError(group)
        of = render_code(members)
        programs = f"triton.cdiv({size}, {of}) * triton.cdiv({of}, {width.name})"
        quotient, low = text.fresh(f"{name}_group"), text.fresh(f"{name}_member")
        body = [_with_digits(statement, name, group, quotient, low) for statement in body]
        head = _head_of_group(name, quotient, low, valid, count, axis, width.name, group)
    else:
        head = parse_statements(
            f"{name} = tl.program_id({axis}) * {width.name} + tl.arange(0, {width.name})\n"
            f"{valid} = {name} < {count}\n"
        )
    seeds = [name, low] if group else [name]
    rest = lifted_body(
        [*body[:place], *body[place + 1 :]], seeds, width.name, valid, text.functions
    )
    tail = _used_once(rest[place:], valid)
    new_body = [*rest[:place], *head, *tail]
    node = with_params(with_body(function.node, new_body), added=[count], constants=[width.name])
    arguments = _order_arguments(
        node, {**arguments_of(launch), count: size, width.name: width.name}
    )
    statement = launch_line(
        function.name,
        grid_with(axes, axis, programs),
        arguments,
        options_of(launch),
        {*function.constants, width.name},
    ).with_changes(leading_lines=launch.statement.leading_lines)
    return changed_text(
        text,
        functions={function.name: node},
        launches=[(launch.statement, [statement])],
        parameters=[width],
    )


def _head_of_group(
    name: str, quotient: str, low: str, valid: str, count: str, axis: int, width: str, group: str
) -> list[cst.BaseStatement]:
    """Return the statements that give a program its group, and some of the group's members."""
    members = render_code(parenthesized(parse_expression(group)))
    blocks = f"tl.cdiv({group}, {width})"
    return parse_statements(
        f"{quotient} = tl.program_id({axis}) // {blocks}\n"
        f"{low} = tl.program_id({axis}) % {blocks} * {width} + tl.arange(0, {width})\n"
        f"{valid} = ({low} < {members}) & ({quotient} * {members} + {low} < {count})\n"
        f"{name} = {quotient} * {members} + {low}\n"
    )


def _with_digits(
    statement: cst.BaseStatement, name: str, group: str, quotient: str, low: str
) -> cst.BaseStatement:
    """Return a statement with names for the index's quotient and remainder by a group's size."""
    digits: dict[type[cst.BaseBinaryOp], str] = {cst.FloorDivide: quotient, cst.Modulo: low}
    pairs = [
        (node, cst.Name(digits[type(node.operator)]))
        for node in divisions_of(name, statement)
        if render_code(node.right) == group
    ]
    return replace_each(statement, pairs)


def _with_count(statement: cst.BaseStatement, axis: int, count: str) -> cst.BaseStatement:
    """Return a statement that reads the number of indices where it read that of programs."""
    pairs = [
        (call, cst.Name(count))
        for call in calls_within(statement, "tl.num_programs")
        if grid_axis(call) == axis
    ]
    return replace_each(statement, pairs)


def _order_arguments(node: cst.FunctionDef, arguments: dict[str, str]) -> dict[str, str]:
    order = [param.name.value for param in node.params.params]
    return {name: arguments[name] for name in order if name in arguments}


def _with_named_index(function: JitFunction, axis: int) -> tuple[str, list[cst.BaseStatement]]:
    """Return the body with the program's index along an axis held by a name, assigned first."""
    program_ids = [c for c in calls_within(function.node, _PROGRAM) if program_axis(c) == axis]
    if not program_ids:
        raise CannotLiftError(f"no index along axis {axis}")
    own = axis_name(function, axis)
    if own and len(program_ids) == 1:
        return own, function.body
    name = own or ("pid" if "pid" not in function.names else f"pid_{axis}")
    body = [
        replace_each(
            statement,
            [
                (call, cst.Name(name))
                for call in calls_within(statement, _PROGRAM)
                if program_axis(call) == axis and not _assigns_index(statement, own)
            ],
        )
        for statement in function.body
    ]
    return name, body if own else [parse_statement(f"{name} = {_PROGRAM}({axis})"), *body]


def _assigns_index(statement: cst.BaseStatement, own: str) -> bool:
    binding = single_assignment(statement)
    return bool(own) and binding is not None and binding.target == own


# ------------------------------------------------------------------------------- warps


WARPS = (1, 2, 4, 8, 16, 32)
_VALUES = 16
"""Elements for each thread to begin with: two 16-byte accesses of bf16, or four of fp32."""

_ROW_VALUES = (4, 8, 16, 32, 64, 128)
_LANES = 32
_MOST = 16


def warps_for(elements: int) -> int:
    """Return the warps of a block of so many elements."""
    return min(max(next_power_of_two(elements) // (_LANES * _VALUES), 1), _MOST)


def launcher_size(expression: str, facts: Facts) -> int | None:
    """Return the size that a launcher's expression stands for, by its name in the brief's shape."""
    sizes = facts.sizes
    if expression in sizes:
        return sizes[expression]
    if expression.isdigit():
        return int(expression)
    return max(sizes.values()) if len(sizes) == 1 else None


def row_warps(text: KernelText, size: str, facts: Facts) -> tuple[Parameter, str]:
    """Return a parameter and warps, an expression, for a launch whose blocks are as long as a row.

    The parameter is how many values of a row a thread holds. So rows of other lengths than the
    tuned one get warps in proportion.
    """
    columns = launcher_size(size, facts)
    row = next_power_of_two(columns) if columns is not None else _LANES * _VALUES * 8
    default = max(row // (_LANES * warps_for(row)), _ROW_VALUES[0])
    values = Parameter(text.fresh("VALUES"), default, _ROW_VALUES)
    whole = f"triton.next_power_of_2({size}) // ({_LANES} * {values.name})"
    return values, f"min(max({whole}, 1), {WARPS[-1]})"


def without_param(node: cst.FunctionDef, name: str | None) -> cst.FunctionDef:
    """Return a function without one of its parameters."""
    params = [param for param in node.params.params if param.name.value != name]
    if params:
        params[-1] = params[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(params=node.params.with_changes(params=params))


def in_place_of(load: cst.Call, code: str) -> cst.BaseExpression:
    """Return a value that is held, or its code, with the fill of a load that it stands for."""
    mask, fill = argument_of(load, 1, "mask"), argument_of(load, 2, "other")
    if mask is None or fill is None:
        return parse_expression(code)
    return parse_expression(f"tl.where({render_code(mask)}, {code}, {render_code(fill)})")
