"""Tiles are moved by tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._distinct_names import without_unread
from solkit.tuner.proposers.rewriter._edit import (
    own_grid,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._memory import is_write
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    integer_literal,
    names_within,
    parse_expression,
    parse_statement,
    parse_statements,
    reached_names,
    render_code,
    replace_each,
    statements_of,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import is_zero
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch, in_launcher
from solkit.tuner.proposers.rewriter._places import (
    OtherFormError,
    Place,
    Scope,
    Sum,
    Term,
    masked_sizes,
    tile_accesses,
    tile_place,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._values import as_blocked_loop, is_runtime_size
from solkit.tuner.proposers.rewriter._variants import launch_variants

_CAPABILITY = (9, 0)
_ARGUMENTS = {"tl.load": ("pointer", "mask", "other"), "tl.store": ("pointer", "value", "mask")}
_TAKE_POINTERS = ("tl.make_block_ptr", "tl.make_tensor_descriptor")
_WIDE_ENOUGH = 16  # elements of a block's row: 16 bytes, whatever their size

_ONE_BIT = "i1"
"""Type of bools in Triton's notation: their blocks have rows of 0 bytes to its compiler."""

_FITS = '''
def fits_descriptor(tensor, row_stride, column_stride=1, columns=16):
    """Tell whether a matrix is aligned and laid out as a tensor descriptor needs it."""
    if tensor is None or tensor.dtype is torch.bool:
        return False
    size = tensor.element_size()
    aligned = tensor.data_ptr() % 16 == 0 and row_stride * size % 16 == 0
    return aligned and column_stride == 1 and columns * size >= 16
'''
_SCRATCH = '''
def descriptor_memory(size, _alignment, _stream):
    """Where the descriptors lie that a kernel makes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
'''


class Descriptors:
    """Tiles are moved by the TMA unit, which computes addresses and checks bounds itself.

    Applies on devices of compute capability 9.0 and later to loads and stores of tiles with two
    axes. Their pointers are a parameter plus ``offsets * stride`` along each axis, and may move on
    in loops. Offsets are ``tl.arange(0, BLOCK)`` plus a start; the columns' start is a multiple of
    ``BLOCK``. Masks are ``offsets < size`` joined by ``&``, with zeros elsewhere. A size that an
    access does not say comes from another access's mask, or from the loop. All accesses through a
    parameter change, or none; none changes whose tensor is both read and written. The original
    launch stays for tensors that are not aligned, or whose columns are not adjacent.
    """

    kind = "tensor descriptors"
    helps = ("instructions", "index arithmetic", "waits for loads", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        device = facts.brief.device
        if device.vendor != "NVIDIA" or device.compute_capability < _CAPABILITY:
            return iter(())
        if not {"torch", "triton"} <= text.names:
            return iter(())
        intent = (
            "The TMA unit can move the tiles of {}: threads compute no addresses and no masks for "
            "them"
        )
        described = partial(_described, text, facts)
        return launch_variants(text, facts, described, intent, "instructions", "latency")


@dataclass(frozen=True)
class _Access:
    """A load or a store of a tile.

    Attributes:
        call: the code.
        place: where.
        scope: what names stand for there.
        sizes: of the tensor, by axis, as its mask has them.
    """

    call: cst.Call
    place: Place
    scope: Scope
    sizes: Mapping[int, str]


@dataclass
class _Tiles:
    """Names, tests and replacements that accesses through descriptors need.

    Attributes:
        taken: names in the function.
        fits: the name of the launcher's helper that tests a tensor.
        names: those of descriptors by their code.
        replaced: accesses, each with what replaces it.
        tests: what must hold in the launcher, in order.
    """

    taken: set[str]
    fits: str
    names: dict[str, str] = field(default_factory=dict)
    replaced: list[Swap] = field(default_factory=list)
    tests: dict[str, None] = field(default_factory=dict)

    def add(self, group: Sequence[_Access], launch: Launch) -> None:
        """Let the accesses through one parameter go through descriptors, if the launch can."""
        tests = [_descriptor_test(access.place, launch, self.fits) for access in group]
        if any(not test for test in tests):
            return
        self.tests |= dict.fromkeys(tests)
        self.replaced += [(access.call, self._access_descriptor(access)) for access in group]

    def _access_descriptor(self, access: _Access) -> cst.BaseExpression:
        """Return the access through a descriptor."""
        rows, columns = access.place.axes
        what = (
            f"tl.make_tensor_descriptor({access.place.base}, "
            f"[{access.sizes[0]}, {access.sizes[1]}], [{rows.stride.code}, 1], "
            f"[{rows.block}, {columns.block}])"
        )
        if what not in self.names:
            self.names[what] = free_name(
                f"{access.place.base.removesuffix('_ptr')}_tiles", self.taken
            )
        at = f"[{rows.start.code}, {columns.start.code}]"
        value = (
            argument_of(access.call, 1, "value") if called_name(access.call) == "tl.store" else None
        )
        call = f"load({at})" if value is None else f"store({at}, {render_code(value)})"
        return parse_expression(f"{self.names[what]}.{call}")


def _described(text: KernelText, facts: Facts, launch: Launch) -> str:
    function = launch.function
    fits, fits_code = _helper_definition(text, _FITS)
    memory, memory_code = _helper_definition(text, _SCRATCH)
    tiles = _Tiles(set(function.names), fits)
    for group in _accesses_by_base(text, launch):
        tensor = facts.tensor(group[0].place.base, launch)
        if tensor is None or tensor.dtype != _ONE_BIT:
            tiles.add(group, launch)
    if not tiles.replaced:
        return ""
    name = text.fresh(f"{function.name}_tma")
    head = [parse_statement(f"{name} = {what}") for what, name in tiles.names.items()]
    node = with_body(function.node, _behind_docstring(function.body, head))
    node = without_unread(replace_each(node, tiles.replaced), function)
    condition = " and ".join(tiles.tests)
    if len(tiles.tests) > 1:
        condition = "(\n    " + "\n    and ".join(tiles.tests) + "\n)"
    allocator = parse_statement(f"triton.set_allocator({memory})")
    return relaunched(
        text,
        NewLaunch(
            launch, renamed_function(function, name, statements_of(node)), grid=own_grid(launch)
        ),
        condition=condition,
        before=[allocator],
        helpers=[*fits_code, *memory_code],
    )


def _helper_definition(text: KernelText, source: str) -> tuple[str, list[cst.FunctionDef]]:
    """Return the name of a helper, and its definition unless the file has it already."""
    node = cst.ensure_type(parse_statements(source)[0], cst.FunctionDef)
    plain = (function for function in text.tree.body if isinstance(function, cst.FunctionDef))
    if any(render_code(function) == render_code(node) for function in plain):
        return node.name.value, []
    name = text.fresh(node.name.value)
    leading = [cst.EmptyLine(), cst.EmptyLine()]
    return name, [node.with_changes(name=cst.Name(name), leading_lines=leading)]


def _descriptor_test(place: Place, launch: Launch, fits: str) -> str:
    """Return the code that tests a tensor in the launcher; empty if it cannot be written."""
    rows, columns = place.axes
    sizes = [rows.stride.code, columns.stride.code, columns.block]
    given_ = [in_launcher(parse_expression(size), launch) for size in sizes]
    tensor = render_code(launch.arguments[place.base])
    if any(node is None for node in given_):
        return ""
    row, column, block = (render_code(node) for node in given_ if node is not None)
    parts = [tensor, row]
    if column != "1":
        parts.append(column)
    width = integer_literal(parse_expression(block))
    if width is None or width < _WIDE_ENOUGH:
        parts.append(f"columns={block}")
    return f"{fits}({', '.join(parts)})"


# ------------------------------------------------------------------------------- accesses


def _accesses_by_base(text: KernelText, launch: Launch) -> list[list[_Access]]:
    """Group accesses by parameters all of whose accesses can go through descriptors."""
    function = launch.function
    placed = [
        a for call, scope in tile_accesses(function) if (a := _tile_access(call, scope)) is not None
    ]
    placed = _with_sizes(placed)
    reads, writes = _pointers_of_calls(text, function)
    done = {id(access.call) for access in placed}
    reach = _parameter_dependences(function)
    other = {
        base
        for group in (reads, writes)
        for call, pointer in group
        if id(call) not in done
        for base in reach(pointer)
    }
    tensors = [
        {
            render_code(launch.arguments[name])
            for _, pointer in group
            for name in reach(pointer)
            if name in launch.arguments
        }
        for group in (reads, writes)
    ]
    by_base: dict[str, list[_Access]] = {}
    for access in placed:
        base = access.place.base
        tensor = launch.arguments.get(base)
        plain = isinstance(tensor, cst.Name) and not function.reassigned(base)
        # What one unit wrote, another may not see yet: a tensor is read or written, not both.
        if not plain or base in other:
            continue
        if not all(render_code(launch.arguments[base]) in tensor for tensor in tensors):
            by_base.setdefault(base, []).append(access)
    return list(by_base.values())


def _tile_access(call: cst.Call, scope: Scope) -> _Access | None:
    """Return a load or a store as one of a tile; ``None`` if it is another."""
    parameters = _ARGUMENTS[called_name(call)]
    keywords = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    if not set(keywords) <= set(parameters) or len(call.args) - len(keywords) > len(parameters):
        return None
    arguments = {name: argument_of(call, index, name) for index, name in enumerate(parameters)}
    pointer, mask, other = (arguments.get(name) for name in ("pointer", "mask", "other"))
    if pointer is None or (other is not None and not is_zero(other)):
        return None
    try:
        place = tile_place(pointer, scope)
        sizes = {} if mask is None else masked_sizes(mask, place, scope)
        return _Access(call, place, scope, sizes) if _is_regular(place, scope) else None
    except OtherFormError:
        return None


def _is_regular(place: Place, scope: Scope) -> bool:
    """Tell whether a descriptor can be made ahead, and blocks start at multiples of 16 bytes."""
    function = scope.function
    strides = [parse_expression(axis.stride.code) for axis in place.axes]
    has_rows = place.axes[0].stride.code != "1"
    blocks = [parse_expression(axis.block) for axis in place.axes]
    return (
        has_rows
        and all(is_runtime_size(stride, function) for stride in strides)
        and all(names_within(block) <= function.constants for block in blocks)
        and scope.is_multiple(place.axes[1].start, place.axes[1].block)
    )


def _with_sizes(placed: Sequence[_Access]) -> list[_Access]:
    """Return accesses of known sizes: by masks, by others' at the same indices, or by loops.

    Those of which a size is not known are left out.
    """
    by_offset: dict[object, set[str]] = {}
    for access in placed:
        for axis, size in access.sizes.items():
            by_offset.setdefault(access.place.axes[axis].offsets.key, set()).add(size)
    sized = []
    for access in placed:
        sizes = dict(access.sizes)
        for axis, along in enumerate(access.place.axes):
            others = by_offset.get(along.offsets.key, set())
            size = next(iter(others)) if len(others) == 1 else _bound_of_loop(access, axis)
            sizes.setdefault(axis, size)
        if all(sizes.values()):
            sized.append(replace(access, sizes=sizes))
    return sized


def _bound_of_loop(access: _Access, axis: int) -> str:
    """Return the size of which a loop visits one block after another; empty if there is none."""
    along, function = access.place.axes[axis], access.scope.function
    for name, loop in access.scope.loops.items():
        blocked_loop = as_blocked_loop(loop, function)
        if (
            blocked_loop is None
            or blocked_loop.block != along.block
            or not is_runtime_size(blocked_loop.bound, function)
        ):
            continue
        factors = (name, blocked_loop.block) if blocked_loop.counts else (name,)
        if along.start.key == Sum((Term(factors),)).key:
            return render_code(blocked_loop.bound)
    return ""


Pointers = list[tuple[cst.Call, cst.CSTNode]]


def _pointers_of_calls(text: KernelText, function: JitFunction) -> tuple[Pointers, Pointers]:
    """Return calls that may read memory and calls that may write it, with their pointers."""
    reads: Pointers = []
    writes: Pointers = []
    for call in calls_within(function.node):
        name = called_name(call)
        pointer = argument_of(call, 0, "pointer") or call
        if name == "tl.load":
            reads.append((call, pointer))
        elif is_write(call):
            writes.append((call, pointer))
        elif name in text.functions or name in _TAKE_POINTERS:
            reads.append((call, call))
            writes.append((call, call))
    return reads, writes


def _parameter_dependences(function: JitFunction) -> Callable[[cst.CSTNode], set[str]]:
    """Return what parameters an expression may depend on, whichever assignments came last."""
    sources: dict[str, set[str]] = {name: set() for name in function.params}
    for statement in walk_statements(function.body):
        for name in (
            assigned_names(statement) if isinstance(statement, cst.SimpleStatementLine) else ()
        ):
            sources.setdefault(name, set()).update(names_within(statement))

    def reach(node: cst.CSTNode) -> set[str]:
        reached = {n for name in names_within(node) for n in reached_names(sources, name)}
        return reached & set(function.params)

    return reach


# ------------------------------------------------------------------------------- the function


def _behind_docstring(body: Body, head: Body) -> list[cst.BaseStatement]:
    has = bool(body) and isinstance(
        expression_statement(body[0]), (cst.SimpleString, cst.ConcatenatedString)
    )
    return [*body[:has], *head, *body[has:]]
