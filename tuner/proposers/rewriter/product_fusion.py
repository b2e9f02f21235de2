"""Elementwise launches become part of a product's: behind its sums, or within its loads.

A product accesses the tensor at a tile, and `_elementwise` writes the elementwise function once
more for the indices of that tile. So the tensor between the two launches is needed no more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    single_values,
    without_unread_parts,
    without_unused,
)
from solkit.tuner.proposers.rewriter._edit import (
    arguments_of,
    changed_text,
    in_place_of,
    with_params,
    without_param,
)
from solkit.tuner.proposers.rewriter._elementwise import (
    Elementwise,
    Inlined,
    as_elementwise,
    coordinates_at,
    inlined_at_tile,
    mask_parts,
    sum_terms,
    tile_of,
)
from solkit.tuner.proposers.rewriter._kept_types import UnknownTypeError, kept_type
from solkit.tuner.proposers.rewriter._launch_order import allocation_of, is_free_between
from solkit.tuner.proposers.rewriter._lift import without_running
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._memory import WRITES, is_write, pointers_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import call_args, converted_value
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._roots import (
    element_uses,
    roots_of,
)
from solkit.tuner.proposers.rewriter._values import all_names
from solkit.tuner.proposers.rewriter.mask_removal import covers_masks

_DTYPE = re.compile(r"torch\.(float16|bfloat16|float32|float8_e4m3fn|float8_e5m2|int8|int32)")
_LONGEST_CHAIN = 6


class FuseProducts:
    """An elementwise launch ahead of a product, or behind it, becomes part of its launch.

    Applies where a function with ``tl.dot`` stores a tensor once that an elementwise one reads at
    the same places, or loads what such a function stored; and behind other functions with loops
    that store once. The grids may differ. The tensor between them is local to the launcher, or the
    elementwise function changes it in place.
    """

    kind = "fuse with product"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        why = facts.explain_factors("extra traffic", "launch")
        chain: list[str] = []
        current: KernelText | None = text
        while current is not None and len(chain) < _LONGEST_CHAIN:
            source = fused_source(current)
            if not source:
                break
            chain.append(source)
            current = parse_kernel(source)
        for source in dict.fromkeys((*chain[-1:], *chain[:1])):  # as much as possible first
            yield Variant(
                source,
                "What is done element by element to a product's operands or results needs no "
                f"launch and no memory of its own{why}.",
            )


def fused_source(text: KernelText) -> str:
    """Return the file with one elementwise launch as part of another; empty if none can be."""
    return next(_fused_sources(text), "")


def _fused_sources(text: KernelText) -> Iterator[str]:
    for first, second in itertools.combinations(text.single, 2):
        if first.launcher is not second.launcher or not is_free_between(first, second):
            continue
        products = [bool(calls_within(e.function.node, "tl.dot")) for e in (first, second)]
        for name in _shared_tensors(first, second):
            between = _Between(text, first, second, name)
            if products[1]:
                source = "" if products[0] else _with_prologue(between)
            else:
                source = _with_epilogue(between) if products[0] or _sums_up(first) else ""
            if source:
                yield source


def _sums_up(launch: Launch) -> bool:
    """Tell whether a function has loops and writes once, behind these."""
    return bool(launch.function.loops) and len(calls_within(launch.function.node, *WRITES)) == 1


# ------------------------------------------------------------------------------- launchers


@dataclass(frozen=True)
class _Between:
    """A tensor between two launches.

    Attributes:
        text: the file.
        first, second: the launches.
        name: of the tensor in the launcher.
    """

    text: KernelText
    first: Launch
    second: Launch
    name: str

    @property
    def parameters(self) -> tuple[str, str]:
        """Names of the tensor in both functions."""
        one, two = (_parameters_of(launch, self.name) for launch in (self.first, self.second))
        return one[0], two[0]

    @property
    def allocation(self) -> cst.BaseStatement | None:
        """Statement that allocates it, if the launcher does."""
        return allocation_of(self.name, self.first.launcher)

    def other_uses(self) -> list[cst.CSTNode]:
        """Return the launcher's uses of the tensor beside the two launches and its metadata."""
        skipped = {id(self.first.statement), id(self.second.statement), id(self.allocation)}
        uses: list[cst.CSTNode] = []
        for statement in walk_statements(statements_of(self.first.launcher)):
            if id(statement) in skipped or statements_of(statement):
                continue
            uses += element_uses(statement, self.name)
        return uses

    def needs_tensor(self) -> bool:
        """Tell whether the launcher still asks for the tensor's sizes."""
        launches = (self.first.statement, self.second.statement, self.allocation)
        skipped = {id(statement) for statement in launches}
        rest = [s for s in statements_of(self.first.launcher) if id(s) not in skipped]
        arguments = [
            render_code(value)
            for launch in (self.first, self.second)
            for value in (*launch.arguments.values(), *launch.options.values(), launch.grid)
        ]
        mentions = any(re.search(rf"\b{self.name}\.", code) for code in arguments)
        return mentions or self.name in names_within(*rest)


def _parameters_of(launch: Launch, tensor: str) -> list[str]:
    return [name for name, value in launch.arguments.items() if render_code(value) == tensor]


def _shared_tensors(first: Launch, second: Launch) -> list[str]:
    """Return tensors that both launches get once."""
    names = {n.value for n in first.arguments.values() if isinstance(n, cst.Name)}
    return sorted(
        name
        for name in names
        if len(_parameters_of(first, name)) == 1 == len(_parameters_of(second, name))
    )


# ------------------------------------------------------------------------------- epilogues


def _with_epilogue(between: _Between) -> str:
    """Return the file with what follows a product as part of it; empty if that cannot be."""
    product, launch = between.first, between.second
    written, read = between.parameters
    elementwise = as_elementwise(launch, read, between.text)
    stores = calls_within(product.function.node, "tl.store")
    if elementwise is None or len(stores) != 1:
        return ""
    statement = next(
        (s for s in product.function.body if expression_statement(s) is stores[0]), None
    )
    value = argument_of(stores[0], 1, "value")
    values = single_values(product.function.body, product.function.params)
    tile = tile_of(stores[0], written, values)
    if statement is None or value is None or tile is None:
        return ""
    targets = {
        n for c in calls_within(launch.function.node, "tl.store") for n in _bases(c, elementwise)
    }
    in_place = read in targets
    launcher = launch.launcher
    inputs = roots_of((v for n, v in product.arguments.items() if n != written), launcher)
    results = [launch.arguments[n] for n in targets if n in launch.arguments]
    outputs = roots_of(results, launcher)
    is_fresh = not in_place and all(_is_empty(name, launcher) for name in outputs)
    if not is_fresh and not covers_masks(launch):
        return ""  # what no program stores is still what it was
    others = between.other_uses()
    if between.allocation is None or outputs & inputs or (others and not in_place):
        return ""
    is_product = tile.is_matrix and calls_within(product.function.node, "tl.dot")
    if not is_product and calls_within(between.allocation, "torch.zeros", "torch.zeros_like"):
        return ""  # what no program stores is 0
    if others and not _all_behind(others, launch):
        return ""
    name = free_name("product", {*product.function.names, *launch.function.names})
    elementwise = _with_loaded(elementwise, read, name)
    result = inlined_at_tile(elementwise, tile, product, "" if in_place else read)
    if result is None:
        return ""
    inlined = result[1]
    if read in names_within(*elementwise.body) and not in_place:
        return ""
    kept = {n: v for n, v in arguments_of(product).items() if in_place or n != written}
    try:
        kind = kept_type(between.allocation, launcher, kept)
    except UnknownTypeError:
        return ""
    code = render_code(parenthesized(_without_type_of(value, written)))
    summed = parse_statement(f"{name} = {code}" + (f".to({kind})" if kind else ""))
    whole = with_each(product.function.node, {id(statement): [summed, *inlined.body]})
    return _rewritten_file(between, product, whole, inlined, None if in_place else written)


def _is_empty(name: str, launcher: cst.FunctionDef) -> bool:
    """Tell whether a launcher allocates a tensor for results alone: it has no values before."""
    value = launcher_definition(name, launcher)
    return value is not None and called_name(value) in ("torch.empty", "torch.empty_like")


def _all_behind(uses: Sequence[cst.CSTNode], launch: Launch) -> bool:
    """Tell whether uses in a launcher come after a launch."""
    body = statements_of(launch.launcher)
    place = next(i for i, s in enumerate(body) if s is launch.statement)
    behind = {id(node) for s in body[place + 1 :] for node in nodes_within(s)}
    return all(id(use) in behind for use in uses)


def _bases(call: cst.Call, of: Elementwise) -> set[str]:
    terms = sum_terms(call.args[0].value, of.values)
    return {term[0] for term in terms if len(term) == 1 and term[0] in of.launch.function.params}


def _with_loaded(elementwise: Elementwise, read: str, name: str) -> Elementwise:
    """Return a function with the product's sums, a name, where it loads them."""
    body: list[cst.BaseStatement] = []
    stores = [call for s in elementwise.body for call in calls_within(s, "tl.store")]
    for statement in elementwise.body:
        pairs = [
            (call, _filled(call, name, stores, elementwise))
            for call in calls_within(statement, "tl.load")
            if coordinates_at(call.args[0].value, read, elementwise) is not None
        ]
        body.append(replace_each(statement, pairs))
    return replace(elementwise, body=tuple(without_unused(body)))


def _filled(
    load: cst.Call, name: str, stores: Sequence[cst.Call], of: Elementwise
) -> cst.BaseExpression:
    """Return a name for what a load gives, with its fill where a store has elements of that."""
    mask, masks = argument_of(load, 1, "mask"), [argument_of(s, 2, "mask") for s in stores]
    stored = [set() if m is None else set(mask_parts(m, of.values)) for m in masks]
    if mask is None or all(parts.issuperset(mask_parts(mask, of.values)) for parts in stored):
        return cst.Name(name)
    return in_place_of(load, name)


def _without_type_of(value: cst.BaseExpression, param: str) -> cst.BaseExpression:
    """Return a value without the conversion to what a parameter points to."""
    inner = converted_value(value)
    return value if inner is None or param not in names_within(*call_args(value)) else inner


# ------------------------------------------------------------------------------- prologues


def _with_prologue(between: _Between) -> str:
    """Return the file with what precedes a product computed as it loads; else empty."""
    launch, product = between.first, between.second
    written, read = between.parameters
    elementwise = as_elementwise(launch, written, between.text)
    if elementwise is None or between.allocation is None or between.other_uses():
        return ""
    stores = [s for s in elementwise.body if calls_within(s, "tl.store")]
    store = expression_statement(stores[0]) if len(stores) == 1 else None
    value = argument_of(store, 1, "value") if isinstance(store, cst.Call) else None
    dtype = _element_type(between, elementwise)
    if value is None or not dtype or read in _written_params(product.function):
        return ""
    launcher = launch.launcher
    results = (product.arguments[n] for n in _written_params(product.function))
    if roots_of(results, launcher) & roots_of(launch.arguments.values(), launcher):
        return ""
    function = _without_moving_pointers(product.function)
    value = _without_type_of(value, written)
    rest = replace(elementwise, body=tuple(s for s in elementwise.body if s is not stores[0]))
    return _with_computed_loads(between, function, rest, (value, dtype))


def _with_computed_loads(
    between: _Between,
    function: JitFunction,
    elementwise: Elementwise,
    stored: tuple[cst.BaseExpression, str],
) -> str:
    """Return the file with each load of the tensor as the computation of what it reads."""
    read, (value, dtype) = between.parameters[1], stored
    product = replace(between.second, function=function)
    swaps: dict[int, Sequence[cst.CSTNode]] = {}
    inlined = None
    for statement in walk_statements(function.body):
        loads = [
            call
            for call in calls_within(statement, "tl.load")
            if not statements_of(statement) and _starts_from(call, read, function)
        ]
        if not loads:
            continue
        tile = tile_of(loads[0], read, single_values(function.body, function.params))
        if len(loads) != 1 or tile is None or inlined is not None:
            return ""  # once: of a second load it would be computed again
        result = inlined_at_tile(elementwise, tile, product, "")
        if result is None:
            return ""
        mapping, inlined = result
        names = {name: render_code(new) for name, new in mapping.items()}
        element = _renamed_type(dtype, names)
        code = f"{render_code(parenthesized(substitute_names(value, mapping)))}.to({element})"
        if tile.conjuncts:
            other = argument_of(loads[0], 2, "other")
            fill = "0.0" if other is None else render_code(other)
            code = f"tl.where({' & '.join(tile.conjuncts)}, {code}, {fill}).to({element})"
        changed = replace_each(statement, [(loads[0], parse_expression(code))])
        swaps[id(statement)] = [*inlined.body, changed]
    if inlined is None:
        return ""
    node = with_each(function.node, swaps)
    if read in names_within(*statements_of(node)):
        node = with_body(node, without_unread_parts(statements_of(node), read))
    if read in names_within(*statements_of(node)):
        return ""
    return _rewritten_file(between, product, node, inlined, read)


def _starts_from(call: cst.Call, param: str, function: JitFunction) -> bool:
    return param in all_names(call.args[0].value, single_values(function.body, function.params))


def _written_params(function: JitFunction) -> frozenset[str]:
    params = frozenset(function.params) - set(function.constants)
    writes = filter(is_write, calls_within(function.node))
    written = pointers_of(function).touched(writes)
    return params if "" in written else written


def _without_moving_pointers(function: JitFunction) -> JitFunction:
    """Return a function whose loops compute each trip's pointers from the loop's variable."""
    swaps: dict[int, Sequence[cst.CSTNode]] = {}
    for place, statement in enumerate(function.body):
        loop = next((loop for loop in function.loops if loop.node is statement), None)
        if loop is None:
            continue
        try:
            body = without_running(loop, names_within(*function.body[place + 1 :]))
        except CannotLiftError:
            continue
        swaps[id(statement)] = [with_body(loop.node, body)]
    return replace(function, node=with_each(function.node, swaps))


def _element_type(between: _Between, elementwise: Elementwise) -> str:
    """Return the type of the tensor's elements as code of the elementwise function; else empty.

    That is what the launcher says where it allocates it: a type, or that of another tensor.
    """
    allocation = between.allocation
    binding = None if allocation is None else single_assignment(allocation)
    if binding is None:
        return ""
    call = cst.ensure_type(binding.value, cst.Call)
    dtype = argument_of(call, 99, "dtype")
    if dtype is not None and (match := _DTYPE.fullmatch(render_code(dtype))):
        return f"tl.{match[1]}"
    like = render_code(dtype).removesuffix(".dtype") if dtype is not None else ""
    if dtype is None and called_name(call).endswith("_like"):
        like = render_code(call.args[0].value)
    for launch in (elementwise.launch, between.second):
        for name, value in launch.arguments.items():
            if like and render_code(value) == like:
                return f"{name}.dtype.element_ty"
    return ""


def _renamed_type(dtype: str, names: Mapping[str, str]) -> str:
    name = dtype.split(".", 1)[0]
    return dtype.replace(name, names[name], 1) if name in names else dtype


# ------------------------------------------------------------------------------- files


def _rewritten_file(
    between: _Between, product: Launch, node: cst.FunctionDef, inlined: Inlined, dropped: str | None
) -> str:
    """Return the file with one launch of a function in place of two."""
    plain = [name for name in inlined.params if name not in inlined.constants]
    constants = [name for name in inlined.params if name in inlined.constants]
    node = with_params(without_param(node, dropped), added=plain, constants=constants)
    statement = NewLaunch(product, node, arguments=inlined.params).statement.with_changes(
        leading_lines=product.statement.leading_lines
    )
    other = between.second if product.statement is between.first.statement else between.first
    launches: list[tuple[cst.CSTNode, Body]] = [
        (between.first.statement, []),
        (between.second.statement, [statement]),
    ]
    allocation = between.allocation
    is_passed = between.name in names_within(statement)
    if dropped is not None and allocation and not is_passed and not between.needs_tensor():
        launches.append((allocation, []))
    return changed_text(
        between.text,
        functions={product.function.name: node, other.function.name: None},
        launches=launches,
    )
