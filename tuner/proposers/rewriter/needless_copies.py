"""Copies ahead of a launch that reads them once: the launch reads what was copied.

Four copies cost memory traffic and no result needs them:

* ``y = x.clone()`` ahead of a launch that changes `y` in place: it loads `x` and stores to `y`;
* ``h = x.to(torch.float16)`` ahead of a launch that only loads `h`: it loads `x` and rounds;
* ``y = torch.zeros(n)`` ahead of a launch that stores all of `y`;
* ``t = x.transpose(0, 1).contiguous()`` ahead of a launch that only loads `t`, by all of its
  strides: it loads `x` by other strides.

That all is stored that anybody reads is taken from the launch as it was recorded: as many bytes as
the tensor has, or as the problem's result has, by one store that no data decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.core import KernelAnalysis
from solkit.tuner.proposers.rewriter._assignments import assignments_in, single_values
from solkit.tuner.proposers.rewriter._edit import with_params
from solkit.tuner.proposers.rewriter._mutation import Facts, Step, Variant, changed_repeatedly
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    expand_names,
    expression_statement,
    free_name,
    integer_literal,
    is_return,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    render_code,
    render_module,
    replace_each,
    single_assignment,
    small_statement,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
    with_each,
)
from solkit.tuner.proposers.rewriter._offset_products import (
    OtherOffsetError,
    offset_products,
    unspread,
)
from solkit.tuner.proposers.rewriter._operations import is_operation
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    launcher_definition,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS, TENSOR_QUERIES, element_uses
from solkit.tuner.proposers.rewriter.host_paths import with_otherwise

_TYPES = {
    **{name: name for name in ("float16", "bfloat16", "float32")},
    **{"half": "float16", "float": "float32"},
}
_METHODS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}
_ATOMICS = "tl.atomic"
_BARRIERS = ("tl.debug_barrier", "tl.inline_asm_elementwise")
_MOST = 4
"""Copies that go in one file."""


class NeedlessCopies:
    """A launch reads a tensor itself, not the copy that was made for it.

    Applies to copies of a parameter of the launcher that one launch gets, and that nothing else
    reads but what returns it. Loads from a clone come ahead of the launch's stores to it. Other
    tensors that the launch writes are allocated by the launcher, so that none is the copied one.
    """

    kind = "no copies"
    helps = ("extra traffic", "launches", "launch", "between launches")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source, names = changed_repeatedly(text, lambda form: _without_copy(form, facts), _MOST)
        if names:
            why = facts.explain_factors("extra traffic", "launch")
            what = ", ".join(names)
            yield Variant(source, f"A launch needs no copy ahead of it: {what}{why}.")


@dataclass(frozen=True)
class _Copy:
    """A copy, and the launch that gets it.

    Attributes:
        text: the file.
        name: of the copy.
        statements: that make it, one or two.
        value: what is copied; ``None`` for zeros.
        dtype: that it is converted to, in Triton's words; empty if it keeps its own.
        launch: that gets it.
        param: the launch's name of it.
        tensors: the launch's parameters that are tensors, as recorded.
    """

    text: KernelText
    name: str
    statements: tuple[cst.BaseStatement, ...]
    value: cst.BaseExpression | None
    dtype: str
    launch: Launch
    param: str
    tensors: frozenset[str]

    @property
    def allocation(self) -> cst.BaseExpression:
        """Value that the copy's name is bound to."""
        binding = single_assignment(self.statements[0])
        assert binding is not None
        return binding.value


def _without_copy(text: KernelText, facts: Facts) -> Step | None:
    """Return the file without the first copy that is not needed, and the copy's name."""
    records = {} if facts.brief.result is None else _records(facts)
    for copy in _copies(text, records):
        if not _is_private(copy) or not _is_plain(copy):
            continue
        record = records.get(copy.launch.function.name)
        if copy.value is None:
            is_whole = not _loads(copy) and _is_whole(copy, record, facts)
            source = _with_empty(copy) if is_whole else ""
        elif not _stores(copy):
            source = _with_source(copy)
        else:
            is_whole = not copy.dtype and _is_whole(copy, record, facts) and _loads_first(copy)
            source = _with_two_tensors(copy) if is_whole else ""
        if source:
            return source, (copy.name,)
    return None


def _records(facts: Facts) -> Mapping[str, KernelAnalysis]:
    result = facts.brief.result
    return {} if result is None else {k.launch.name: k for k in result.analysis.own}


# ------------------------------------------------------------------------------- copies


def _copies(text: KernelText, records: Mapping[str, KernelAnalysis]) -> Iterator[_Copy]:
    body = statements_of(text.launcher)
    for place, statement in enumerate(body):
        binding = single_assignment(statement)
        if binding is None or binding.operator:
            continue
        name, value, dtype = binding.target, *_copied(binding.value)
        statements: tuple[cst.BaseStatement, ...] = (statement,)
        is_zeros = called_name(binding.value) in ("torch.zeros", "torch.zeros_like")
        if called_name(binding.value) in ALLOCATORS and not is_zeros:
            filled = _filled(body[place + 1 : place + 2], name)
            value = filled if _is_like(binding.value, filled) else None
            statements = tuple(body[place : place + 2])
        if value is None and not is_zeros:
            continue
        for launch in text.single:
            params = [p for p, v in launch.arguments.items() if render_code(v) == name]
            record = records.get(launch.function.name)
            if launch.launcher is text.launcher and len(params) == 1 and record is not None:
                signature = record.launch.signature.items()
                tensors = frozenset(p for p, kind in signature if kind.startswith("*"))
                yield _Copy(text, name, statements, value, dtype, launch, params[0], tensors)


def _copied(node: cst.BaseExpression) -> tuple[cst.BaseExpression | None, str]:
    """Return what an expression is a copy of, and the type that it is converted to."""
    dtype, is_copy, is_dense = "", False, False
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        if called_name(node) == "torch.clone" and len(node.args) == 1:
            return node.args[0].value, dtype
        if method == "to" or (method in _METHODS and not node.args):
            kind = _METHODS.get(method) or _type_of(node)
            if not kind or dtype:
                return None, ""
            dtype, is_copy = f"tl.{kind}", True
        elif method == "clone" and not node.args:
            is_copy = True
        elif method != "contiguous" or node.args:
            break
        is_dense |= method == "contiguous"
        node = node.func.value
    return (node, dtype) if is_copy or (is_dense and _turned(node) is not None) else (None, "")


def _turned(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor whose axes change places in an expression; ``None`` if it is another."""
    if isinstance(node, cst.Attribute):
        return node.value if node.attr.value in ("T", "mT") else None
    if called_name(node) in ("torch.transpose", "torch.permute"):
        return argument_of(node, 0, "input")
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value in ("t", "transpose", "permute") else None


def _type_of(call: cst.Call) -> str:
    """Return the float that ``to`` converts to; empty for more than that on the same device."""
    kinds = []
    for arg in call.args:
        word, code = arg.keyword.value if arg.keyword else "", render_code(arg.value)
        name = _TYPES.get(code.removeprefix("torch."), "")
        if word in ("", "dtype") and name and code.startswith("torch."):
            kinds.append(name)
        elif word not in ("copy", "non_blocking"):
            return ""
    return kinds[0] if len(kinds) == 1 else ""


def _filled(behind: Body, name: str) -> cst.BaseExpression | None:
    """Return what ``name.copy_(value)`` copies, if that is the statement behind."""
    for statement in behind:
        call = expression_statement(statement)
        if isinstance(call, cst.Call) and called_name(call) == f"{name}.copy_":
            return call.args[0].value if len(call.args) == 1 else None
    return None


def _is_like(allocation: cst.BaseExpression, value: cst.BaseExpression | None) -> bool:
    like = isinstance(allocation, cst.Call) and called_name(allocation) == "torch.empty_like"
    if value is None or not like or not isinstance(allocation, cst.Call):
        return False
    codes = [render_code(arg.value) for arg in allocation.args]
    return codes == [render_code(value)]


# ------------------------------------------------------------------------------- conditions


def _is_private(copy: _Copy) -> bool:
    """Tell whether nothing but the launch reads a copy, and nothing comes in between.

    Its sizes may be read, and it may be returned.
    """
    body = statements_of(copy.text.launcher)
    places = {id(s): i for i, s in enumerate(body)}
    first, last = places[id(copy.statements[-1])], places.get(id(copy.launch.statement), -1)
    if last < first or assigned_names(*body).count(copy.name) != 1:
        return False
    between = [s for s in body[first + 1 : last] if not _only_asks(s)]
    passed = (*copy.launch.arguments.values(), copy.launch.grid)
    if (
        between or sum(len(element_uses(value, copy.name)) for value in passed) != 1
    ):  # a view is another use
        return False
    skipped = {id(s) for s in (*copy.statements, copy.launch.statement)}
    rest = [s for s in body if id(s) not in skipped]
    returned = [s for s in rest if is_return(s)]
    uses = any(element_uses(s, copy.name) for s in rest if s not in returned)
    if copy.value is None or _stores(copy):
        return not uses
    return not uses and not any(element_uses(s, copy.name) for s in returned)


def _only_asks(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement allocates, computes sizes, or asserts: it changes no tensor."""
    if not isinstance(statement, (cst.SimpleStatementLine, cst.FunctionDef)):
        return False
    plain = (*ALLOCATORS, "triton.cdiv", "triton.next_power_of_2", "int", "min", "max", "float")
    for call in calls_within(statement):
        asks = isinstance(call.func, cst.Attribute) and call.func.attr.value in TENSOR_QUERIES
        if called_name(call) not in plain and not asks and _copied(call)[0] is None:
            return False
    return not isinstance(
        small_statement(statement), (cst.AugAssign, cst.Return, cst.Del)
    ) and not any(
        isinstance(node, cst.AssignTarget)
        and isinstance(node.target, (cst.Subscript, cst.Attribute))
        for node in nodes_within(statement)
    )


def _is_plain(copy: _Copy) -> bool:
    """Tell whether a launch's function has no atomics, no ``return`` and no barrier of its own.

    Its other tensors that it writes are allocated by the launcher: none is what was copied.
    """
    function, launch = copy.launch.function, copy.launch
    if not _stores(copy) and copy.param in _stored_params(copy):
        return False  # by atomics
    calls = [called_name(call) for call in calls_within(function.node)]
    odd = [name for name in calls if name.startswith(_ATOMICS) or name in _BARRIERS]
    kinds: tuple[type[cst.CSTNode], ...] = (cst.Return, cst.While, cst.If)
    odd += [name for name in calls if name in ("tl.make_block_ptr", "tl.make_tensor_descriptor")]
    if copy.value is not None and not _stores(copy):
        odd, kinds = [n for n in odd if "make" in n], ()
    if odd or any(isinstance(node, kinds) for node in nodes_within(function.node.body)):
        return False
    body = statements_of(launch.launcher)
    last = next((at for at, s in enumerate(body) if s is launch.statement), len(body) - 1)
    ahead = with_body(launch.launcher, body[: last + 1])  # a result may get the name of a tensor
    for param in _stored_params(copy):
        argument = launch.arguments.get(param)
        name = argument.value if isinstance(argument, cst.Name) else ""
        value = launcher_definition(name, ahead)
        if param != copy.param and called_name(value or cst.Name("x")) not in ALLOCATORS:
            return False
    return True


def _stored_params(copy: _Copy) -> set[str]:
    function = copy.launch.function
    stores = [c for c in calls_within(function.node) if called_name(c) == "tl.store"]
    stores += [c for c in calls_within(function.node) if called_name(c).startswith(_ATOMICS)]
    return {p for call in stores for p in copy.tensors & _roots(copy, call.args[0].value)}


def _roots(copy: _Copy, pointer: cst.BaseExpression) -> set[str]:
    """Return the names that a pointer is made of, through the names of the function."""
    bindings = assignments_in(walk_statements(copy.launch.function.body))
    names, count = names_within(pointer), -1
    while count != len(names):
        count = len(names)
        for binding in bindings:
            if binding.target in names:
                loads = calls_within(binding.value, "tl.load")
                names |= set() if loads else names_within(binding.value)
    return names


def _accesses(copy: _Copy, kind: str) -> list[cst.Call]:
    calls = calls_within(copy.launch.function.node, kind)
    return [call for call in calls if copy.param in _roots(copy, call.args[0].value)]


def _loads(copy: _Copy) -> list[cst.Call]:
    return _accesses(copy, "tl.load")


def _stores(copy: _Copy) -> list[cst.Call]:
    return _accesses(copy, "tl.store")


def _is_whole(copy: _Copy, record: KernelAnalysis | None, facts: Facts) -> bool:
    """Tell whether a launch stores all of a copy that anybody reads, whatever is in memory."""
    stores, result = _stores(copy), facts.brief.result
    if record is None or record.facts.requests is None or len(stores) != 1 or result is None:
        return False
    mask = argument_of(stores[0], 2, "mask")
    if mask is not None and _depends_on_data(copy, mask):
        return False
    if not _follows_shapes(copy, stores[0]):
        return False
    bound = record.launch.arguments.get(copy.param)
    layout = None if bound is None else bound.tensor
    accesses = [
        a for a in record.facts.requests.accesses if a.argument == copy.param and a.kind != "load"
    ]
    if layout is None or record.launch.count != 1:
        return False
    stored = sum(access.unique_bytes for access in accesses)
    if layout.storage_bytes == stored:
        return True
    is_only = layout.role == "output" and result.analysis.outputs.startswith("1 output ")
    return is_only and result.work is not None and result.work.dram_write_bytes == stored


def _follows_shapes(copy: _Copy, store: cst.Call) -> bool:
    """Tell whether sizes of tensors, and no number that a caller gives, say what is stored."""
    launch, values = copy.launch, single_values(copy.launch.function.body)
    loops = [n.iter for n in nodes_within(launch.function.node) if isinstance(n, cst.For)]
    mask = argument_of(store, 2, "mask")
    parts = [store.args[0].value, *([mask] if mask is not None else []), *loops]
    names = names_within(*(expand_names(part, values.get) for part in parts))
    sizes = [v for p, v in launch.arguments.items() if p in names - copy.tensors]
    launcher = launch.launcher
    params = {p.name.value for p in launcher.params.params}
    tensors = {render_code(launch.arguments[p]) for p in copy.tensors & set(launch.arguments)}
    tensors |= set() if copy.value is None else names_within(copy.value)
    if not _keeps_extents(copy, store, loops):
        return False
    for size in (*sizes, launch.grid):
        whole = expand_names(size, lambda name: _host_value(name, launcher, params))
        owners = {id(n.value) for n in nodes_within(whole) if isinstance(n, cst.Attribute)}
        plain = [n for n in nodes_within(whole) if isinstance(n, cst.Name) and id(n) not in owners]
        if any(node.value in params - tensors for node in plain):
            return False
    return True


def _keeps_extents(copy: _Copy, store: cst.Call, loops: Sequence[cst.BaseExpression]) -> bool:
    """Tell whether what is stored and what is allocated are rounded alike.

    Unlike ones are equal for some sizes, and may be for those that were recorded. Blocks and grids
    may be rounded up: these store no less.
    """
    launch, values = copy.launch, single_values(copy.launch.function.body)
    params = {p.name.value for p in launch.launcher.params.params}
    pointer = expand_names(store.args[0].value, values.get)
    mask = argument_of(store, 2, "mask")
    extents = [*([] if mask is None else [mask]), *loops]
    stored = [*(expand_names(part, values.get) for part in extents)]
    stored += calls_within(pointer, "tl.arange")
    names = names_within(*stored) - copy.tensors

    def rounded(node: cst.BaseExpression) -> dict[str, bool]:
        return _rounded(expand_names(node, lambda n: _host_value(n, launch.launcher, params)))

    own = rounded(copy.allocation)
    codes = _rounded(*stored) | rounded(launch.grid)
    for name, value in launch.arguments.items():
        codes |= rounded(value) if name in names else {}
    lower = {code for code, is_up in codes.items() if not is_up}
    return lower <= own.keys() <= codes.keys()


_ROUNDING = (cst.FloorDivide, cst.Modulo, cst.RightShift)
_ROUNDING_UP = ("tl.cdiv", "triton.cdiv", "triton.next_power_of_2", "max")
_ROUNDING_CALLS = (*_ROUNDING_UP, "min", "int", "round")


def _rounded(*nodes: cst.CSTNode) -> dict[str, bool]:
    """Return the parts of sizes that round, and whether each rounds up."""
    codes = dict[str, bool]()
    for node in nodes_within(*nodes):
        name = called_name(node) if isinstance(node, cst.Call) else ""
        is_up = name in _ROUNDING_UP or _is_rounded_up(node)
        is_division = is_operation(node, *_ROUNDING)
        if name in _ROUNDING_CALLS or is_division:
            codes[compact_code(node)] = is_up
    return codes


def _is_rounded_up(node: cst.CSTNode) -> bool:
    """Tell whether it is ``(size + block - 1) // block``."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.left, cst.BinaryOperation):
        return False
    return isinstance(node.operator, cst.FloorDivide) and isinstance(
        node.left.operator, (cst.Add, cst.Subtract)
    )


def _host_value(
    name: str, launcher: cst.FunctionDef, params: set[str]
) -> cst.BaseExpression | None:
    return None if name in params else launcher_definition(name, launcher)


def _depends_on_data(copy: _Copy, node: cst.BaseExpression) -> bool:
    values = single_values(copy.launch.function.body)
    whole = expand_names(node, values.get)
    return bool(calls_within(whole, "tl.load")) or _changes(copy, whole)


def _changes(copy: _Copy, node: cst.BaseExpression) -> bool:
    """Tell whether an expression has names that are assigned several times."""
    names = assigned_names(*copy.launch.function.body)
    return any(names.count(name) > 1 for name in names_within(node))


def _loads_first(copy: _Copy) -> bool:
    """Tell whether all loads of a copy come ahead of its store, in the same trip if in a loop.

    A program that stores and later loads, in another trip, may load what it stored.
    """
    order = [n for n in nodes_within(copy.launch.function.node) if isinstance(n, cst.Call)]
    place = {id(node): i for i, node in enumerate(order)}
    (store,) = _stores(copy)
    ahead = all(place[id(load)] < place[id(store)] for load in _loads(copy))
    loops = [n for n in nodes_within(copy.launch.function.node) if isinstance(n, cst.For)]
    within = [{id(n) for n in nodes_within(loop)} for loop in loops]
    same = any(id(store) in inner for inner in within)
    return ahead and (not same or not any(id(e) in i for i in within for e in _loads(copy)))


def _source_condition(copy: _Copy) -> str | None:
    """Return the condition under which a copied parameter has its copy's strides."""
    turned = None if copy.value is None else _turned(copy.value)
    value = copy.value if turned is None else turned
    root = value
    while isinstance(root, cst.Attribute):
        root = root.value
    params = {p.name.value for p in copy.text.launcher.params.params}
    params -= set(assigned_names(*statements_of(copy.text.launcher)))
    if value is None or not isinstance(root, cst.Name) or root.value not in params:
        return None
    condition = f"{render_code(value)}.is_contiguous()"
    if turned is None:
        return condition
    strides = _given_strides(copy)
    axes = f"{render_code(value)}.dim() == {len(strides)}"
    return f"{axes} and {condition}" if _loads_by(copy, strides) else None


def _given_strides(copy: _Copy) -> list[str]:
    """Return the parameters of a launch that get a copy's strides; none unless all axes have one.

    None either if the launcher asks otherwise how the copy lies in memory.
    """
    words = [n for n in nodes_within(copy.text.launcher) if isinstance(n, cst.Attribute)]
    queries = [node.attr.value for node in words if render_code(node.value) == copy.name]
    params: dict[int | None, str] = {}
    for param, value in copy.launch.arguments.items():
        if called_name(value) == f"{copy.name}.stride":
            params[integer_literal(argument_of(value, 0))] = param
    is_whole = set(params) == {*range(len(params))} and queries.count("stride") == len(params)
    if not is_whole or "is_contiguous" in queries:
        return []
    return [params[axis] for axis in range(len(params))]


def _loads_by(copy: _Copy, strides: Sequence[str]) -> bool:
    """Tell whether all loads of a copy add to it an index times a stride, for each of these.

    A place that is written otherwise is another element where the copy lies otherwise in memory.
    """
    function, all_strides = copy.launch.function, set(strides)
    assignments = list(assignments_in(walk_statements(function.body)))
    names = {b.target for b in assignments if copy.param in _roots(copy, cst.Name(b.target))}
    pointers = [load.args[0].value for load in _loads(copy)]
    if not all_strides or any(not all_strides <= _roots(copy, pointer) for pointer in pointers):
        return False
    if {copy.param, *all_strides} & {*assigned_names(*function.body)}:
        return False
    if any(names & names_within(call) for call in _passing(copy)):
        return False
    own = [binding for binding in assignments if binding.target in names]
    plain = [binding.target for binding in own if not binding.operator]
    if len({*plain}) < len(plain) or any(b.operator not in ("", "+=") for b in own):
        return False
    pointers += [binding.operand if binding.operator else binding.value for binding in own]
    values = {n: v for n, v in single_values(function.body).items() if n not in names}
    try:
        offsets = [offset_products(expand_names(node, values.get)) for node in pointers]
    except OtherOffsetError:
        return False
    bases = {
        f"{opening}{name}{closing}" for name in (copy.param, *names) for opening, closing in _AROUND
    }
    factors = {*function.params} - function.constants  # a row's length, times which rows are flat
    return all(
        (len(product) == 1 and unspread(product[0])[0] in bases)
        or (len(factors & {*product}) == 1 and len([f for f in product if f in all_strides]) == 1)
        for products in offsets
        for product in products
    )


_AROUND = (("", ""), ("(", ")"))


# ------------------------------------------------------------------------------- new files


def _with_empty(copy: _Copy) -> str:
    """Return the file whose zeros are an allocation."""
    (statement,) = copy.statements
    code = render_code(statement).replace("torch.zeros", "torch.empty", 1)
    pairs = [(statement, parse_statement(code))]
    return render_module(replace_each(copy.text.tree, pairs))


def _with_source(copy: _Copy) -> str:
    """Return the file whose launch loads what was converted, and converts it."""
    condition, function = _source_condition(copy), copy.launch.function
    loads = _loads(copy)
    uses = copy.param in assigned_names(*function.body)
    if condition is None or not loads or uses or copy.value is None:
        return ""
    if any(copy.param in names_within(call) for call in _passing(copy)):
        return ""
    pairs: list[Swap] = []
    for load in loads if copy.dtype else ():
        pairs.append((load, parse_expression(f"{render_code(load)}.to({copy.dtype})")))
    types = [
        node
        for node in nodes_within(function.node)
        if isinstance(node, cst.Attribute) and render_code(node).startswith(f"{copy.param}.")
    ]
    if copy.dtype and (types or _asks_type(copy)):
        return ""  # something else has the copy's type
    if len(copy.statements) > 1:
        return ""
    alias = parse_statement(f"{copy.name} = {render_code(copy.value)}")
    node = replace_each(function.node, pairs) if pairs else function.node
    return _guarded(copy, {id(copy.statements[0]): [alias]}, node, condition)


def _asks_type(copy: _Copy) -> bool:
    """Tell whether the launcher asks for a copy's type, or makes a tensor like it."""
    launcher = copy.text.launcher
    asks = [n for n in nodes_within(launcher) if isinstance(n, cst.Attribute)]
    codes = {render_code(n) for n in asks}
    like = [c for c in calls_within(launcher) if called_name(c).endswith("_like")]
    typed = {f"{copy.name}.{word}" for word in ("dtype", "element_size", "new_empty", "new_zeros")}
    return bool(codes & typed) or any(copy.name in names_within(call) for call in like)


def _passing(copy: _Copy) -> list[cst.Call]:
    """Return calls of other functions of the file, which may load."""
    own = set(copy.text.functions)
    return [c for c in calls_within(copy.launch.function.node) if called_name(c) in own]


def _with_two_tensors(copy: _Copy) -> str:
    """Return the file whose launch loads from what was cloned, and stores to a new tensor."""
    condition, launch, function = _source_condition(copy), copy.launch, copy.launch.function
    if condition is None or copy.value is None or _passing(copy):
        return ""
    taken = set(function.names) | set(function.params)
    other = free_name(f"{copy.param}_source", taken)
    values = {
        name: value
        for name, value in single_values(copy.launch.function.body).items()
        if copy.param in _roots(copy, cst.Name(name)) and not calls_within(value, "tl.load")
    }
    pairs: list[Swap] = []
    for load in _loads(copy):
        pointer = expand_names(load.args[0].value, values.get)
        if _moves(copy, pointer):
            return ""
        moved = substitute_names(pointer, {copy.param: cst.Name(other)})
        args = [load.args[0].with_changes(value=moved), *load.args[1:]]
        pairs.append((load, load.with_changes(args=args)))
    node = with_params(replace_each(function.node, pairs), [other])
    code = render_code(copy.value)
    line = NewLaunch(launch, node, arguments={other: code}).statement
    empty = parse_statement(f"{copy.name} = torch.empty_like({code})")
    swaps: dict[int, list[cst.CSTNode]] = {id(s): [] for s in copy.statements[1:]}
    swaps |= {id(copy.statements[0]): [empty], id(launch.statement): [line]}
    return _guarded(copy, swaps, node, condition)


def _moves(copy: _Copy, pointer: cst.BaseExpression) -> bool:
    """Tell whether a pointer's name changes from trip to trip, so that it has no one value."""
    names = assigned_names(*copy.launch.function.body)
    return any(
        names.count(name) > 1 and copy.param in _roots(copy, cst.Name(name))
        for name in names_within(pointer)
    )


def _guarded(
    copy: _Copy,
    swaps: Mapping[int, Sequence[cst.CSTNode]],
    function: cst.FunctionDef,
    condition: str,
) -> str:
    """Return the file with other statements of its launcher, and another function.

    Where the condition does not hold, all is as it was.
    """
    text = copy.text
    tree = with_otherwise(text, text.launcher, condition)
    if tree is None:
        return ""
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for statement in tree.body:
        name = statement.name.value if isinstance(statement, cst.FunctionDef) else ""
        if name == function.name.value:
            body.append(function)
        else:
            is_launcher = name == text.launcher.name.value
            body.append(with_each(statement, swaps) if is_launcher else statement)
    return render_module(tree.with_changes(body=body))
