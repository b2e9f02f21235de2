"""Values in a Triton function: what it computes or loads twice.

*Value numbering* over straight code: a name may hold several values one after another. Each value
gets a number, which is made from the expression and the numbers of the names in it. A load has the
number of its pointer and mask: what it reads elsewhere is fill. So a second load of the same
elements becomes the first one's value, with the fill it asks for, and no third name is needed
unless the first was assigned meanwhile.

*Loops over rows* that walk in blocks, and the parameters that may be the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values, straight_values
from solkit.tuner.proposers.rewriter._memory import (
    WRITES,
    Pointers,
    is_write,
    may_meet,
    may_write,
    pointers_of,
    touches_memory,
)
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expression_statement,
    free_name,
    names_within,
    nodes_within,
    numbered_name,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import is_operation, rounded_up
from solkit.tuner.proposers.rewriter._parse import JitFunction, Launch
from solkit.tuner.proposers.rewriter._roots import is_size, tensor_roots

_MOST_NAMES = 6  # of an address that stand for others

# ------------------------------------------------------------------------------- names


def whole_values(body: Body) -> dict[str, cst.BaseExpression]:
    """Return what such names stand for, if it is loaded from nowhere, without names before them."""
    values: dict[str, cst.BaseExpression] = {}
    for name, value in single_values(body).items():
        if not calls_within(value, "tl.load"):
            values[name] = substitute_names(value, values)
    return values


def all_names(node: cst.CSTNode, values: Values) -> set[str]:
    """Return the names in a node, and those in what they stand for."""
    pending, seen = names_within(node), set[str]()
    while pending:
        name = pending.pop()
        seen.add(name)
        if name in values:
            pending |= names_within(values[name]) - seen
    return seen


# ------------------------------------------------------------------------------- loops over rows


def argument_aliases(launch: Launch) -> Mapping[str, frozenset[str]]:
    """Map each parameter to the others that may get the same tensor, or views of one."""
    tensors = {name: _tensors_of(value, launch) for name, value in launch.arguments.items()}
    return {
        name: frozenset(o for o, other in tensors.items() if other & own and o != name)
        for name, own in tensors.items()
    }


def _tensors_of(argument: cst.BaseExpression, launch: Launch) -> frozenset[str]:
    return tensor_roots(argument, launch.launcher) or frozenset({render_code(argument)})


class BlockedLoop:
    """A loop that walks over `bound` elements in blocks of the constant `block`.

    Attributes:
        loop: the loop.
        bound: the number of elements, an expression of the function's parameters.
        block: the compile-time constant.
        counts: whether the loop's variable counts blocks; else it is the first element's index.
    """

    def __init__(self, loop: Loop, bound: cst.BaseExpression, block: str, counts: bool) -> None:
        self.loop, self.bound, self.block, self.counts = loop, bound, block, counts

    def is_whole(self, mask: cst.BaseExpression) -> bool:
        """Tell whether a mask is true for the row's elements, all of them and no others.

        Args:
            mask: an expression without names of the trip's own but the loop's variable.
        """
        name, block = self.loop.name, self.block
        starts = (f"{name}*{block}", f"{block}*{name}") if self.counts else (name,)
        code, length = plain_code(mask), plain_code(self.bound)
        return any(code == f"{start}+tl.arange(0,{block})<{length}" for start in starts)


def as_blocked_loop(loop: Loop, function: JitFunction) -> BlockedLoop | None:
    """Return the loop as one over blocks; ``None`` if it is of another form."""
    if render_code(loop.start) != "0":
        return None
    step = render_code(loop.step)
    if step in function.constants:
        return BlockedLoop(loop, loop.stop, step, False)
    if step != "1":
        return None
    stop = loop.stop
    if called_name(stop) in ("tl.cdiv", "triton.cdiv"):
        bound, block = argument_of(stop, 0), argument_of(stop, 1)
        if bound is not None and block is not None and render_code(block) in function.constants:
            return BlockedLoop(loop, bound, render_code(block), True)
    size = rounded_up(stop)
    divisor = render_code(stop.right) if isinstance(stop, cst.BinaryOperation) else ""
    if size is None or divisor not in function.constants:
        return None
    return BlockedLoop(loop, size, divisor, True)


def is_runtime_size(node: cst.BaseExpression, function: JitFunction) -> bool:
    """Tell whether an expression is made of parameters that the function does not assign."""
    used = names_within(node)
    return used <= set(function.params) and not any(map(function.reassigned, used))


def next_power_of_two(size: int) -> int:
    """Return the least power of two that is not below."""
    return 1 << max(size - 1, 0).bit_length()


def with_own_names(body: Body, params: set[str]) -> list[cst.BaseStatement]:
    """Return a function's statements in which a name that starts anew is another name.

    A parameter that moves on, as in ``X += row * stride``, is a sum wherever it is used.
    """
    statements, seen = list(body), set(params)
    taken = params | names_within(*body)
    place = 0
    while place < len(statements):
        binding = single_assignment(statements[place])
        name, behind = "" if binding is None else binding.target, statements[place + 1 :]
        if binding is not None and name in seen:
            starts_anew = not binding.operator and name not in names_within(binding.value)
            if name in params and _holds(binding.value, name, statements, place):
                moved = {name: binding.value}
                statements[place:] = [_with_flat_sums(substitute_names(s, moved)) for s in behind]
                continue
            if starts_anew or name in params:
                free = cst.Name(numbered_name(name, taken))
                first = parse_statement(f"{free.value} = {render_code(binding.value)}")
                rest = [substitute_names(s, {name: free}) for s in behind]
                statements[place:] = [first, *rest]
        seen |= set(assigned_names(statements[place]))
        place += 1
    return statements


def _holds(value: cst.BaseExpression, name: str, body: Body, place: int) -> bool:
    """Tell whether a sum is the same wherever it is used behind a place, and cheap."""
    later = set(assigned_names(*body[place + 1 :]))
    calls = {called_name(call) for call in calls_within(value)}
    is_sum = is_operation(value, cst.Add)
    return is_sum and not calls and not names_within(value) & later and name not in later


_SUMS = (cst.Add, cst.Subtract)


def _with_flat_sums(statement: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement with ``a + b + c`` for ``(a + b) + c``."""
    sums = [node for node in nodes_within(statement) if is_operation(node, *_SUMS)]
    products = [n.right for n in sums if is_operation(n.right, cst.Multiply)]
    operands = [n.left for n in sums if is_operation(n.left, cst.Add, cst.Multiply)] + products
    pairs = [(node, node.with_changes(lpar=[], rpar=[])) for node in operands if node.lpar]
    outer = {id(n) for old, _ in pairs for n in nodes_within(old) if n is not old}
    plain = replace_each(statement, [pair for pair in pairs if id(pair[0]) not in outer])
    return _with_flat_sums(plain) if pairs else plain


# ------------------------------------------------------------------------------- value numbering


_RANDOM = ("tl.rand", "tl.randn")


@dataclass
class _Load:
    """A load that was seen.

    Attributes:
        name: what holds its value.
        number: of that value.
        fill: the code of ``other``; empty if there is none.
        base: the pointer that it reads through.
    """

    name: str
    number: int
    fill: str
    bases: frozenset[str]


@dataclass
class _State:
    aliases: Mapping[str, frozenset[str]]
    pointers: Pointers
    taken: set[str]
    mixed: set[str]
    read: frozenset[str]
    numbers: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    loads: dict[str, _Load] = field(default_factory=dict)
    count: int = 0

    def number(self, key: str) -> int:
        if key not in self.values:
            self.count += 1
            self.values[key] = self.count
        return self.values[key]

    def key(self, node: cst.CSTNode) -> str:
        """Return the expression with each name's number: what two names hold may be the same."""
        marked = {
            n: cst.Name(f"_v{self.numbers[n]}") for n in names_within(node) if n in self.numbers
        }
        text = render_code(substitute_names(node, marked))
        return "".join(text.split())

    def value(self, node: cst.BaseExpression | None) -> str:
        """Return the number of an expression's value; an unassigned name itself."""
        if node is None:
            return ""
        if isinstance(node, cst.Name):
            return str(self.numbers.get(node.value, node.value))
        return str(self.number(self.key(node)))

    def forget(self, bases: frozenset[str]) -> None:
        """Forget loads through pointers that have been written, or ones that may be the same."""
        gone = bases.union(*(self.aliases.get(base, ()) for base in bases))
        if "" in gone:
            self.loads.clear()
        kept = {key: load for key, load in self.loads.items() if not load.bases & {*gone, ""}}
        self.loads = kept

    def forget_written(self, statement: cst.BaseStatement) -> None:
        """Forget loads of what a statement may write."""
        for call in filter(may_write, calls_within(statement)):
            pointer = argument_of(call, 0, "pointer") if is_write(call) else None
            self.forget(self.pointers.bases(pointer))

    def fresh(self, name: str) -> str:
        return free_name(name, self.taken)


def accessed_params(function: JitFunction) -> set[str]:
    """Return the parameters that a function's loads and stores start from, where that is clear."""
    pointers = pointers_of(function)
    calls = filter(touches_memory, calls_within(function.node))
    bases = [pointers.bases(argument_of(call, 0, "pointer")) for call in calls]
    return {base for clear in bases if len(clear) == 1 for base in clear} - {""}


def reads_other_trips(launch: Launch, loop: cst.For) -> bool:
    """Tell whether a trip may read what another trip writes: a tensor at a place it does not."""
    stored = list(_addresses(launch, loop, *WRITES))
    return any(
        place != other_place and may_meet(tensors, others)
        for tensors, place in _addresses(launch, loop, "tl.load")
        for others, other_place in stored
    )


def _addresses(launch: Launch, loop: cst.For, *calls: str) -> Iterator[tuple[frozenset[str], str]]:
    """Yield what accesses of a loop may be to, as the launcher has it, and at what place in it.

    Two parameters start at one place where the launcher hands on the same: a view may not.
    """
    values, pointers = whole_values(launch.function.body), pointers_of(launch.function)
    same = _second_names(statements_of(launch.launcher))
    for call in calls_within(loop, *calls):
        tensors = argument_bases(launch, call)
        pointer = substitute_names(call.args[0].value, values)
        starts = {
            name: cst.SimpleString(repr(same.get(text := render_code(argument), text)))
            for name in pointers.bases(call.args[0].value)
            if (argument := launch.arguments.get(name)) is not None
        }
        yield tensors, compact_code(substitute_names(pointer, starts))


def _second_names(body: Body) -> dict[str, str]:
    """Return the names that stand for another name, which keeps its value."""
    changed = set(assigned_names(*body))
    return {
        name: value.value
        for name, value in straight_values(body).items()
        if isinstance(value, cst.Name) and value.value not in changed
    }


def writes_in_order(loop: Loop, running: Sequence[str] = ()) -> bool:
    """Tell whether places of writes move with the loop's variable, without going round.

    A variable that an address both adds and takes away leaves it where it is.

    Args:
        loop: the loop.
        running: names that move with its variable.
    """
    values = {
        b.target: parenthesized(b.value)
        for s in loop.body
        if (b := single_assignment(s)) and b.target not in running
    }
    moving = {loop.name, *running}
    for call in calls_within(loop.node, *WRITES):
        pointer = call.args[0].value
        for _ in range(_MOST_NAMES):
            pointer = substitute_names(pointer, values)
        kinds = [
            type(node.operator)
            for node in nodes_within(pointer)
            if isinstance(node, cst.BinaryOperation) and moving & names_within(node)
        ]
        other = set(kinds) - {cst.Add, cst.Multiply, cst.Subtract}
        uses = sum(count_uses(pointer, name) for name in moving)
        chooses = any(moving & names_within(inner) for inner in calls_within(pointer))
        if other or chooses or (cst.Subtract in kinds and uses > 1):
            return False
    return True


def argument_bases(launch: Launch, call: cst.Call) -> frozenset[str]:
    """Return the tensors that a call's pointer may start from; ``""`` for what is not clear."""
    arguments = launch.arguments
    bases = pointers_of(launch.function).bases(argument_of(call, 0, "pointer"))
    tensors = {b for b in bases if b not in arguments or not is_size(arguments[b], launch.launcher)}
    named = (_tensors_of(arguments[b], launch) if b in arguments else {b} for b in tensors)
    return frozenset[str]().union(*named) or frozenset({""})


def without_repeats(
    body: Body, aliases: Mapping[str, frozenset[str]], params: Sequence[str]
) -> list[cst.BaseStatement]:
    """Return the statements without what they compute or load again.

    Args:
        body: statements of a function.
        aliases: of each pointer parameter, those that may point to the same tensor.
        params: of the function.
    """
    taken = set(assigned_names(*body)).union(*(names_within(s) for s in body), params)
    loads = [call for s in body for call in calls_within(s, "tl.load") if call.args]
    pointers = Pointers(body, params)
    read = pointers.touched(loads) - {""}
    state = _State(aliases, pointers, taken, _reassigned_names(body), read)
    return _number_block(body, state)


def _reassigned_names(body: Body) -> set[str]:
    """Return the names that hold several different values."""
    written: dict[str, set[str]] = {}
    for statement in body:
        binding = single_assignment(statement)
        for name in assigned_names(statement):
            text = render_code(statement) if binding is None else compact_code(binding.value)
            written.setdefault(name, set()).add(text)
    return {name for name, values in written.items() if len(values) > 1}


def _number_block(body: Body, state: _State) -> list[cst.BaseStatement]:
    statements: list[cst.BaseStatement] = []
    for statement in body:
        if statements_of(statement):
            statements.append(_number_opaque_statement(statement, state))
            continue
        statements += _number_statement(statement, state)
    return statements


def _number_opaque_statement(statement: cst.BaseStatement, state: _State) -> cst.BaseStatement:
    """Give names that a loop or a branch assigns new values; what it writes is unknown.

    A loop's trips take what was loaded ahead of it; what they load is no other's.
    """
    if any(map(may_write, calls_within(statement))):
        state.loads.clear()
    for name in assigned_names(statement):
        state.numbers[name] = state.number(f"{name} assigned in block {state.count}")
    if not isinstance(statement, cst.For) or statement.orelse is not None:
        return statement
    ahead, own = dict(state.loads), assigned_names(statement)
    statement = with_body(statement, _number_block(statements_of(statement), state))
    state.loads = ahead
    for name in {*own, *assigned_names(statement)}:
        state.numbers[name] = state.number(f"{name} behind block {state.count}")
    return statement


def _number_statement(statement: cst.BaseStatement, state: _State) -> list[cst.BaseStatement]:
    ahead, statement = _with_loads_once(statement, state)
    binding = single_assignment(statement)
    if binding is None:
        for name in assigned_names(statement):
            state.numbers[name] = state.number(f"{name} unpacked {state.count}")
        state.forget_written(statement)
        return [*ahead, *_with_stored_value(statement, state)]
    key = state.key(binding.value)
    state.forget_written(statement)
    fixed = not any(may_write(c) or called_name(c) in _RANDOM for c in calls_within(statement))
    number = state.number(key if fixed else f"{key} at {state.count}")
    if isinstance(binding.value, cst.Name):  # another name for a value
        number = state.numbers.get(binding.value.value, number)
    if state.numbers.get(binding.target) == number and fixed:
        return ahead
    state.numbers[binding.target] = number
    return [*ahead, statement]


def _with_stored_value(statement: cst.BaseStatement, state: _State) -> list[cst.BaseStatement]:
    """Return a store whose value has a name, in the tensor's type: a load from there gets it."""
    call = expression_statement(statement)
    if not isinstance(call, cst.Call) or called_name(call) != "tl.store":
        return [statement]
    pointer, value = argument_of(call, 0, "pointer"), argument_of(call, 1, "value")
    mask = argument_of(call, 2, "mask")
    bases = state.pointers.bases(pointer)
    is_number = isinstance(value, (cst.Integer, cst.Float, cst.UnaryOperation))
    if pointer is None or value is None or is_number or len(bases) != 1 or not bases <= state.read:
        return [statement]
    base = next(iter(bases))
    name = state.fresh(f"{base.removesuffix('_ptr')}_written")
    number = state.number(f"stored {state.count}")
    state.numbers[name] = number
    key = f"{state.value(pointer)} where {state.value(mask)}"
    state.loads[key] = _Load(name, number, "?", bases)
    typed = f"({render_code(value)}).to({base}.dtype.element_ty)"
    ahead = parse_statement(f"{name} = {typed}")
    return [ahead, replace_each(statement, [(value, cst.Name(name))])]


def _with_loads_once(
    statement: cst.BaseStatement, state: _State
) -> tuple[list[cst.BaseStatement], cst.BaseStatement]:
    """Replace each load that was seen before in the statement; put loads ahead of it, if needed."""
    binding = single_assignment(statement)
    ahead: list[cst.BaseStatement] = []
    for call in calls_within(statement, "tl.load"):
        pointer, mask = argument_of(call, 0, "pointer"), argument_of(call, 1, "mask")
        if pointer is None or _is_volatile(call):
            continue
        key = f"{state.value(pointer)} where {state.value(mask)}"
        fill = argument_of(call, 2, "other")
        seen = state.loads.get(key)
        if seen is not None and state.numbers.get(seen.name) == seen.number:
            value = _with_other_fill(seen, mask, fill)
            statement = replace_each(statement, [(call, value)])
            continue
        bases = state.pointers.bases(pointer)
        whole = binding is not None and binding.value is call and binding.target not in state.mixed
        name = (
            binding.target
            if whole and binding is not None
            else state.fresh(_read_name(pointer, bases))
        )
        number = state.number(f"load {key} {state.count}")
        seen_fill = "" if fill is None else render_code(fill)
        state.loads[key] = _Load(name, number, seen_fill, bases)
        if whole:
            state.values[state.key(call)] = number
        else:
            state.numbers[name] = number
            ahead.append(parse_statement(f"{name} = {render_code(call)}"))
            statement = replace_each(statement, [(call, cst.Name(name))])
    return ahead, statement


def _is_volatile(call: cst.Call) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == "volatile" for arg in call.args)


def _read_name(pointer: cst.BaseExpression, bases: frozenset[str]) -> str:
    names = (node.value for node in nodes_within(pointer) if isinstance(node, cst.Name))
    plain = next((name for name in (*names, *bases) if name in bases - {""}), "value")
    return f"{plain.removesuffix('_ptr').removesuffix('_ptrs')}_read"


def _with_other_fill(
    seen: _Load, mask: cst.BaseExpression | None, fill: cst.BaseExpression | None
) -> cst.BaseExpression:
    """Return the value that was loaded, with another fill where that differs."""
    if fill is None or mask is None or render_code(fill) == seen.fill:
        return cst.Name(seen.name)
    return parse_expression(f"tl.where({render_code(mask)}, {seen.name}, {render_code(fill)})")


# ------------------------------------------------------------------------------- zeros


class _Zeros(cst.CSTTransformer):
    def leave_BinaryOperation(  # noqa: N802 - libcst's name
        self,
        original_node: cst.BinaryOperation,  # noqa: ARG002
        updated_node: cst.BinaryOperation,
    ) -> cst.BaseExpression:
        left, right = updated_node.left, updated_node.right
        if isinstance(updated_node.operator, cst.Add):
            if render_code(left) == "0":
                return _keep_parentheses(right, updated_node)
            if render_code(right) == "0":
                return _keep_parentheses(left, updated_node)
        if isinstance(updated_node.operator, cst.Multiply) and "0" in (
            render_code(left),
            render_code(right),
        ):
            return cst.Integer("0")
        return updated_node


def _keep_parentheses(node: cst.BaseExpression, of: cst.BinaryOperation) -> cst.BaseExpression:
    return node if node.lpar or not of.lpar else node.with_changes(lpar=of.lpar, rpar=of.rpar)


def without_zeros(body: Body, name: str) -> list[cst.BaseStatement]:
    """Return statements with a name taken as 0, and sums and products with it made short."""
    zero = {name: cst.Integer("0")}
    changed = [substitute_names(statement, zero).visit(_Zeros()) for statement in body]
    return [statement for statement in changed if isinstance(statement, cst.BaseStatement)]
