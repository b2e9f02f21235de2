"""Constants of a launcher become parameters that can be tuned; larger tiles to begin with."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._block_meaning import (
    blocks_with_meaning,
    numbers_its_blocks,
    starts_block,
)
from solkit.tuner.proposers.rewriter._edit import (
    WARPS,
    Parameter,
    block_constants,
    changed_tree,
    grid_constants,
    has_assignment,
    in_statement,
    warps_for,
)
from solkit.tuner.proposers.rewriter._masks import unmasked_blocks
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    all_params,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    functions_in,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    range_loop,
    render_code,
    render_module,
    replace_each,
    statements_of,
    substitute_names,
    walk_statements,
    with_each,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_operation
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    launcher_integer,
    read_module,
)
from solkit.tuner.proposers.rewriter._tile_sizes import (
    Tile,
    covered_elements,
    is_product,
    larger_defaults,
    largest_block,
    least_side,
    size_under_flat_grid,
    tile_values,
    warps_of_product,
)
from solkit.tuner.proposers.rewriter._values import as_blocked_loop, whole_values
from solkit.tuner.proposers.rewriter.chosen_sizes import choices_of, without_choice
from solkit.tuner.proposers.rewriter.own_steps import with_own_steps

_STAGES = (1, 2, 3, 4, 5)
_POWER_OF_TWO = "triton.next_power_of_2"


_OF_THE_PROBLEM = ("reference", "inputs", "check")


class Constants:
    """Numbers in the launcher become its keyword parameters and entries of SPACE.

    Applies to compile-time constants that tile the grid or step a loop, and to the options
    ``num_warps`` and ``num_stages``, which get Triton's defaults where the launch has none. The
    kernel stays as it is; the tuner finds the values.
    """

    kind = "constants"
    helps = ("latency", "tail", "instructions", "dispatch")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:  # noqa: ARG002
        """See `Rewrite.variants`."""
        source = lifted_constants(text)
        if source:
            yield Variant(
                source,
                "Block sizes, warps and stages become parameters, so that they can be tuned.",
            )


class Retile:
    """Larger blocks: constants as for "constants", with defaults of GPU kernels that run well.

    Applies where such a constant is below its usual size: 1024 elements of an elementwise block,
    2048 of a trip over a row, tiles of 128 x 128 x 64 for ``tl.dot``; or where a trip takes more
    than a row has.
    """

    kind = "retile"
    helps = ("extra traffic", "latency", "instructions", "dispatch", "tail")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source = lifted_constants(text, facts)
        plain = lifted_constants(text)
        if source and source != plain:
            why = facts.explain_factors("extra traffic", "latency", "dispatch")
            yield Variant(source, f"Larger blocks have more loads under way and reuse more{why}.")


def lifted_constants(
    text: KernelText, larger: Facts | None = None, sizes: Facts | None = None
) -> str:
    """Return the file with its launchers' constants as parameters; empty if nothing changes.

    Args:
        text: the file.
        larger: facts, if constants that are small for their kind get larger defaults.
        sizes: facts, if values only are to suit the sizes at hand.
    """
    if larger is None and sizes is None:
        return _as_they_are(text.tree)
    return _lift_constants(text, larger, larger or sizes)


@functools.lru_cache(16)
def _as_they_are(tree: cst.Module) -> str:
    """Return the file as it is, without facts: two rewrites ask for it."""
    text = read_module(tree)
    return "" if text is None else _lift_constants(text, None, None)


def _lift_constants(text: KernelText, larger: Facts | None, sizes: Facts | None) -> str:
    before, shared = render_module(text.tree), dict[str, tuple[int, ...]]()
    for name in [launch.function.name for launch in text.single]:
        text = _without_choices(text, name, larger)
        text = with_own_steps(text, text.launches_of(name)[0])
        text = _with_own_numbers(text, text.launches_of(name)[0])
        text = _with_tiles(text, text.launches_of(name)[0], (larger, sizes), shared)
        text = _with_options(text, text.launches_of(name)[0], larger)
    after = render_module(text.tree)
    return after if after != before else ""


def _without_choices(text: KernelText, name: str, facts: Facts | None) -> KernelText:
    """Return the file in which branches choose no tiles of a launch, nor its warps and stages.

    Other numbers, such as a block that holds a whole row, must follow from the shape.
    """
    launch = text.launches_of(name)[0]
    if facts is None or launch.launcher is not text.launcher:
        return text
    for choice in choices_of(text, launch, facts):
        changed = without_choice(text, choice)
        if changed is None or not changed.launches_of(name):
            continue
        other = changed.launches_of(name)[0]
        tiles = {
            render_code(other.arguments[tile.name])
            for tile in _tile_parameters(changed, other)
            if _may_change_alone(changed, other, tile)
            and not (tile.tiles_grid and _has_meaning(other, tile))
            and tile.name not in unmasked_blocks(other)
        }
        options = {render_code(value) for value in other.options.values()}
        if set(choice.values) <= tiles | options and set(choice.values) & tiles:
            return changed
    return text


def _with_own_numbers(text: KernelText, launch: Launch) -> KernelText:
    """Return the file in which a loop's step shares no name of the launcher with other blocks.

    Of ``BM=block, BN=block, BK=block`` the last can then be another than what tiles the grid.
    """
    counts = Counter(map(render_code, launch.arguments.values()))
    pairs: list[Swap] = []
    for tile in _tile_parameters(text, launch):
        argument = launch.arguments[tile.name]
        is_shared = isinstance(argument, cst.Name) and counts[argument.value] > 1
        if is_shared and not tile.tiles_grid and _own_default(text, argument) is None:
            cap = _cap_of(argument, launch)
            own = cst.Integer(str(tile.value)) if cap is None else cap.node.deep_clone()
            pairs.append((argument, own))
    replaced = read_module(in_statement(text.tree, launch.launcher, pairs)) if pairs else None
    return replaced or text


def _tile_parameters(text: KernelText, launch: Launch) -> list[Tile]:
    function = launch.function
    placed: dict[str, int | None] = dict(grid_constants(launch))
    for statement in walk_statements(function.body):
        loop = range_loop(statement)
        blocked_loop = None if loop is None else as_blocked_loop(loop, function)
        if blocked_loop is not None:
            placed.setdefault(blocked_loop.block, None)
        elif loop is not None:  # a part of a range: its step may be of all programs that share it
            blocks = {
                render_code(call.args[-1].value) for call in calls_within(loop.node, "tl.arange")
            }
            for name in sorted(names_within(loop.step) & function.constants & blocks):
                placed.setdefault(name, None)
    grouped = {name for name in block_constants(function) if _grid_follows(launch, name)}
    for name in sorted(grouped):
        placed.setdefault(name, None)
    tiles = []
    for name, axis in placed.items():
        argument = launch.arguments.get(name)
        if isinstance(argument, cst.Name) and _is_of_the_problem(text, argument.value):
            continue
        value = None if argument is None else launcher_integer(argument, launch.launcher, text)
        own = _own_default(text, argument)
        value = own if value is None else value
        if value is None and (cap := _cap_of(argument, launch)) is not None:
            value = integer_literal(cap.number)
        if value is not None:
            tiles.append(Tile(name, axis, value, axis is not None or name in grouped))
    return tiles


@dataclass(frozen=True)
class _Cap:
    """A block's size that a size of the problem caps, as in ``BLOCK = min(1024, N)``.

    Attributes:
        node: the expression.
        number: the size where the other one is larger.
        size: the other one.
    """

    node: cst.Call
    number: cst.BaseExpression
    size: cst.BaseExpression

    def with_name(self, name: str) -> cst.BaseExpression:
        """Return the expression whose number is a name's value.

        Sizes below are blocks as they were: what is no power of two is no block.
        """
        size = render_code(self.size)
        if called_name(self.size) == _POWER_OF_TWO:
            return parse_expression(f"min({name}, {size})")
        bound = render_code(parenthesized(self.size))
        return parse_expression(f"{name} if {name} <= {bound} else {render_code(self.node)}")


def _cap_of(argument: cst.BaseExpression | None, launch: Launch) -> _Cap | None:
    """Return what an argument stands for in the launcher, if a size of the problem caps it."""
    value = argument
    if isinstance(argument, cst.Name):
        value = launcher_definition(argument.value, launch.launcher)
    if not isinstance(value, cst.Call) or called_name(value) != "min" or len(value.args) != 2:
        return None
    first, second = call_args(value)
    number, size = (second, first) if integer_literal(second) is not None else (first, second)
    calls = {called_name(call) for call in calls_within(size)}
    is_known = (integer_literal(number) or 0) > 0 and integer_literal(size) is None
    plain = calls <= {_POWER_OF_TWO} and not any(arg.keyword or arg.star for arg in value.args)
    return _Cap(value, number, size) if is_known and plain else None


def _is_of_the_problem(text: KernelText, name: str) -> bool:
    """Tell whether a module's constant says what is computed: the reference uses it, too."""
    if text.constant(name) is None:
        return False
    functions = functions_in(text.tree.body)
    return any(name in names_within(functions[f]) for f in _OF_THE_PROBLEM if f in functions)


def _grid_follows(launch: Launch, name: str) -> bool:
    """Tell whether the grid changes with a constant: it names the argument, or looks it up.

    Or it divides by the same number, and by which constant that is follows from the function.
    """
    if name in _divisors(launch):
        return True
    argument, grid = launch.arguments.get(name), launch.grid
    if isinstance(grid, cst.Name):
        grid = launcher_definition(grid.value, launch.launcher) or grid
    subscripts = (node for node in nodes_within(grid) if isinstance(node, cst.Subscript))
    if any(render_code(subscript.slice[0]).strip("'\"") == name for subscript in subscripts):
        return True
    return isinstance(argument, cst.Name) and argument.value in names_within(grid)


def _divisors(launch: Launch) -> dict[str, list[cst.BaseExpression]]:
    """Return constants that are numbers, with the divisors of the grid that each one is.

    In ``cdiv(M, 32) * cdiv(N, 32)`` that is known of `BN` if the function has ``cdiv(N, BN)``; of
    one that is left over, too, if the function divides nothing else by it.
    """
    places = [
        call
        for axis in launch.axes or ()
        for call in calls_within(axis, "triton.cdiv")
        if len(call.args) == 2 and integer_literal(call.args[1].value) is not None
    ]
    names = {
        name: value
        for name in sorted(block_constants(launch.function))
        if (value := integer_literal(launch.arguments.get(name))) is not None
    }
    counted: dict[str, set[str]] = {name: set() for name in names}  # sizes that each one divides
    for call in calls_within(launch.function.node, "tl.cdiv"):
        size, name = (render_code(arg.value) for arg in call.args[:2])
        if name in names and size in launch.arguments:
            counted[name].add(render_code(launch.arguments[size]))
    result: dict[str, list[cst.BaseExpression]] = {}
    for place in places:
        divisor, size = place.args[1].value, render_code(place.args[0].value)
        equal = [name for name, value in names.items() if value == integer_literal(divisor)]
        if len(mine := [name for name in equal if size in counted[name]]) == 1:
            result.setdefault(mine[0], []).append(divisor)
    numbers = {integer_literal(node) for node in _integers_in(launch.function.node)}
    for name, value in names.items():
        taken = {id(node) for nodes in result.values() for node in nodes}
        rest = [p.args[1].value for p in places if id(p.args[1].value) not in taken]
        alike = [node for node in rest if integer_literal(node) == value]
        others = [n for n, v in names.items() if v == value and not counted[n] and n not in result]
        if others == [name] and len(alike) == 1:
            result[name] = alike
        elif list(names.values()).count(value) == 1 and value not in numbers and alike:
            result[name] = [*result.get(name, []), *alike]  # one size of several axes
    return result


def _own_default(text: KernelText, argument: cst.BaseExpression | None) -> int | None:
    """Return the default of the launcher's keyword parameter that an argument is."""
    for param in text.launcher.params.kwonly_params:
        if argument is not None and render_code(argument) == param.name.value:
            return integer_literal(param.default)
    return None


def _with_tiles(
    text: KernelText,
    launch: Launch,
    facts: tuple[Facts | None, Facts | None],
    shared: dict[str, tuple[int, ...]],
) -> KernelText:
    """Return the file with a launch's tiles as parameters; one of several launches suits all."""
    larger, measured = facts
    tiles = _tile_parameters(text, launch)
    capped = {t.name for t in tiles if _cap_of(launch.arguments[t.name], launch) is not None}
    defaults = {} if larger is None else larger_defaults(launch, tiles, larger)
    covered = {} if measured is None else covered_elements(launch, tiles, measured)
    for tile in tiles:
        argument = launch.arguments[tile.name]
        if tile.name in capped and _cap_of(argument, launch) is None:
            continue
        groups = _group_sizes(text, launch, tile)
        numbers = [size for size in groups if isinstance(size, int)]
        longest = max(covered.get(tile.name, tile.value), least_side(launch))
        value = tile.value if tile.tiles_grid else min(tile.value, longest)  # no trip has more
        values = tile_values(launch, replace(tile, value=value))
        values = tuple(v for v in values if all(n % v == 0 for n in numbers))
        most = max(covered.get(tile.name, 0), value, values[0] if values else 0)
        values = tuple(v for v in values if tile.name not in covered or v <= most)
        default = defaults.get(tile.name, tile.value)
        while any(number % default for number in numbers) and default > tile.value:
            default //= 2
        own = _own_default(text, argument) is not None
        name = render_code(argument) if own else _free_parameter_name(text, launch, tile)
        if _is_bound_by_guard(launch, tile) or not _may_change_alone(text, launch, tile):
            continue
        if tile.tiles_grid and _has_meaning(launch, tile):
            continue
        sizes: list[cst.BaseExpression | None] = [*_divided_sizes(launch, tile)]
        sizes += [size for size in groups if not isinstance(size, int)]
        if tile.name in unmasked_blocks(launch):
            sizes.append(_size_under_blocks(launch, tile))
        replaced = read_module(_replace_constant(text, launch, tile, name, own))
        if replaced is None:
            continue
        place, ahead = _first_use(replaced, launch.function.name, name)
        guard = _fallback(tile, name, sizes, ahead)
        if guard is None and sizes:
            values = tuple(v for v in values if tile.value % v == 0)
            default = math.gcd(default, tile.value)
        elif measured is not None:
            totals = [measured.size(size, launch) or 0 for size in sizes if size is not None]
            values = tuple(v for v in values if not any(n % v for n in totals)) or values
            if any(n % default for n in totals):
                default = max((v for v in values if tile.value <= v <= default), default=tile.value)
        values = tuple(v for v in values if v in shared.get(name, values)) or values
        shared[name] = values
        if guard is not None:
            guarded = with_each(replaced.tree, {id(place): [guard, place]})
            replaced = read_module(guarded) or replaced
        arguments = (v for launched in text.launches for v in launched.arguments.values())
        is_shared = [render_code(value) for value in arguments].count(name) > 1
        limit = None if tile.name not in covered or tile.tiles_grid or is_shared else longest
        tree = changed_tree(replaced, parameters=[Parameter(name, default, values, limit)])
        text = read_module(tree) or text
        launch = text.launches_of(launch.function.name)[0]
    return text


def _has_meaning(launch: Launch, tile: Tile) -> bool:
    """Tell whether a tile of the grid is part of what is computed."""
    function, axis = launch.function, tile.axis
    if tile.name in blocks_with_meaning(function):
        return True
    return axis is not None and numbers_its_blocks(function, tile.name, axis)


def _divided_sizes(launch: Launch, tile: Tile) -> list[cst.BaseExpression]:
    """Return sizes of a launcher that a function divides by a block's: it must divide them.

    As many blocks as a group has are none if the block is larger than the group.
    """
    quotients = [
        node.left
        for node in nodes_within(launch.function.node)
        if isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.FloorDivide)
        and render_code(node.right) == tile.name
        and not names_within(node.left) & set(assigned_names(launch.function.node))
    ]
    sizes = [in_launcher(node, launch) for node in quotients]
    plain = {render_code(size): size for size in sizes if size is not None and names_within(size)}
    return list(plain.values())


def _fallback(
    tile: Tile, name: str, sizes: Sequence[cst.BaseExpression | None], ahead: set[str]
) -> cst.BaseStatement | None:
    """Return a statement that keeps the original's block for sizes that another does not divide.

    It is for blocks without masks; ``None`` if the launcher does not know the sizes at that place,
    where it has the names of `ahead`.
    """
    if not sizes or None in sizes:
        return None
    totals = [size for size in sizes if size is not None]
    if not names_within(*totals) <= {*ahead, "triton"}:
        return None
    codes = dict.fromkeys(f"{render_code(parenthesized(size))} % {name} != 0" for size in totals)
    return parse_statement(f"if {' or '.join(codes)}:\n    {name} = {tile.value}\n")


def _first_use(text: KernelText, function: str, name: str) -> tuple[cst.BaseStatement, set[str]]:
    """Return the first statement around a launch that uses a name, and the names known there.

    It stands in the innermost block of the launcher that has all uses.
    """
    launch = text.launches_of(function)[0]
    ahead = {param.name.value for param in all_params(launch.launcher)}
    body = statements_of(launch.launcher)
    while True:
        for first in body:
            if name in names_within(first) or launch.statement in nodes_within(first):
                break
            ahead |= _surely_assigned(first)
        blocks = (node for node in nodes_within(first) if isinstance(node, cst.IndentedBlock))
        inner = next((b for b in blocks if launch.statement in nodes_within(b)), None)
        if inner is None or count_uses(inner, name) != count_uses(first, name):
            return first, ahead
        body = list(inner.body)


def _surely_assigned(statement: cst.CSTNode) -> set[str]:
    """Return the names that a statement assigns on each path through it."""
    if isinstance(statement, cst.If):
        other = set[str]() if statement.orelse is None else _surely_assigned(statement.orelse)
        return set.union(set(), *map(_surely_assigned, statements_of(statement))) & other
    if isinstance(statement, (cst.With, cst.Else)):
        return set.union(set(), *map(_surely_assigned, statements_of(statement)))
    return (
        set(assigned_names(statement)) if isinstance(statement, cst.SimpleStatementLine) else set()
    )


def _size_under_blocks(launch: Launch, tile: Tile) -> cst.BaseExpression | None:
    """Return how many elements blocks walk over, as an expression of the launcher."""
    if tile.axis is not None and launch.axes is not None and tile.axis < len(launch.axes):
        axis = launch.axes[tile.axis]
        if called_name(axis) == "triton.cdiv":
            return call_args(axis)[0]
        if not isinstance(axis, cst.BinaryOperation):
            return None
        block = render_code(axis.right)
        size = _size_before_rounding(axis.left, block)
        is_plain = isinstance(axis.operator, cst.FloorDivide) and block not in render_code(size)
        return size if is_plain else None
    if tile.tiles_grid:
        return size_under_flat_grid(launch, tile)
    loops = (range_loop(statement) for statement in walk_statements(launch.function.body))
    blocked = (as_blocked_loop(loop, launch.function) for loop in loops if loop is not None)
    bounds = {
        render_code(loop.bound): loop.bound
        for loop in blocked
        if loop is not None and loop.block == tile.name
    }
    return in_launcher(next(iter(bounds.values())), launch) if len(bounds) == 1 else None


def _size_before_rounding(node: cst.BaseExpression, block: str) -> cst.BaseExpression:
    """Return the size in ``size + block - 1``; others as they are."""
    if is_operation(node, cst.Subtract):
        inner = node.left
        if not is_operation(inner, cst.Add):
            return node
        if render_code(node.right) == "1" and render_code(inner.right) == block:
            return inner.left
    return node


def _group_sizes(
    text: KernelText, launch: Launch, tile: Tile
) -> list[cst.BaseExpression | int | None]:
    """Return the sizes of groups that blocks must not cross: numbers, or a launcher's expressions.

    ``None`` stands for a size that the launcher does not know.

    ``k // G`` and ``k % G``, with ``k`` the first element of a block, are meant for all of the
    block. How many blocks of another tile there are is no group's.
    """
    function, values = launch.function, whole_values(launch.function.body)
    loops = [loop for loop in map(range_loop, walk_statements(function.body)) if loop is not None]
    starts = {loop.name for loop in loops if render_code(loop.step) == tile.name}
    counts = {loop.name for loop in loops} - starts
    tiles, sizes = grid_constants(launch), list[cst.BaseExpression | int | None]()
    for node in nodes_within(function.node):
        if not is_operation(node, cst.FloorDivide, cst.Modulo):
            continue
        is_count = render_code(node.right) in {tile.name, *tiles}
        whole = substitute_names(node.left, values)
        if not is_count and starts_block(whole, tile.name, starts, counts):
            size = in_launcher(substitute_names(node.right, values), launch)
            number = None if size is None else launcher_integer(size, launch.launcher, text)
            sizes.append(size if number is None else number)
    return sizes


def _free_parameter_name(text: KernelText, launch: Launch, tile: Tile) -> str:
    """Return the parameter's name: the constant's, unless the launcher uses it otherwise."""
    argument = launch.arguments[tile.name]
    is_gone = isinstance(argument, cst.Name) and _cap_of(argument, launch) is None
    local = render_code(argument) if is_gone else ""
    if local and not _has_keyword(text, local):
        return local
    is_taken = _has_keyword(text, tile.name)
    is_taken |= tile.name in names_within(*statements_of(text.launcher)) - {local}
    return text.fresh(tile.name) if is_taken else tile.name


def _replace_constant(
    text: KernelText, launch: Launch, tile: Tile, name: str, own: bool
) -> cst.Module:
    """Return the file with a constant's value replaced by a name, in the launch and in its grid."""
    if own:
        return text.tree
    argument = launch.arguments[tile.name]
    launcher = launch.launcher
    if (cap := _cap_of(argument, launch)) is not None:
        return in_statement(text.tree, launcher, [(cap.node, cap.with_name(name))])
    if isinstance(argument, cst.Name):
        statement = has_assignment(launcher, argument.value)
        if statement is None:
            return text.tree  # a module's constant: the parameter hides it
        return changed_tree(text, launches=[(statement, [])])
    pairs: list[Swap] = [(argument, cst.Name(name))]
    if tile.axis is not None:
        pairs += _replace_in_grid(launch, tile, name)
    elif tile.name in (divisors := _divisors(launch)):
        pairs += [(divisor, cst.Name(name)) for divisor in divisors[tile.name]]
    pairs += [(guard, cst.Name(name)) for guard in _in_guards(launch, tile)]
    return in_statement(text.tree, launcher, pairs)


def _is_bound_by_guard(launch: Launch, tile: Tile) -> bool:
    """Tell whether a guard around the launch forbids that a constant changes.

    The launch in its ``else`` may share the grid; and of two constants with one value it is not
    known which of them a test is about.
    """
    if not _enclosing_conditions(launch):
        return False
    grid = launch.grid
    value = launcher_definition(grid.value, launch.launcher) if isinstance(grid, cst.Name) else None
    shared = isinstance(value, cst.Tuple) and _replace_in_grid(launch, tile, tile.name)
    alike = [
        name
        for name, argument in launch.arguments.items()
        if integer_literal(argument) == tile.value
    ]
    tested = tile.name in alike and _in_guards(launch, tile)
    return bool(shared) or (bool(tested) and len(alike) > 1)


def _enclosing_conditions(launch: Launch) -> list[cst.If]:
    """Return the conditions of which the launch is in the body."""
    return [
        branch
        for branch in nodes_within(launch.launcher)
        if isinstance(branch, cst.If)
        and any(node is launch.call for node in nodes_within(branch.body))
    ]


def _in_guards(launch: Launch, tile: Tile) -> list[cst.BaseExpression]:
    """Return uses of a constant's value in ``if size % value == 0`` around the launch."""
    rests = (node for guard in _enclosing_conditions(launch) for node in nodes_within(guard.test))
    return [
        node.right
        for node in rests
        if is_operation(node, cst.Modulo) and integer_literal(node.right) == tile.value
    ]


def _replace_in_grid(launch: Launch, tile: Tile, name: str) -> list[Swap]:
    axes = launch.axes
    if axes is None or tile.axis is None or tile.axis >= len(axes):
        return []
    axis = axes[tile.axis]
    shares = list(_shared_out(axis, tile))
    if any(_replaced_integers(part, tile, name) for part in shares):
        return []
    pairs = _replaced_integers(axis, tile, name)
    value = launcher_definition(render_code(launch.grid), launch.launcher)
    if pairs and value is not None and isinstance(launch.grid, cst.Name):
        pairs = _replaced_where_used(launch, launch.grid, value, pairs)
    for node in nodes_within(axis):
        if isinstance(node, cst.Name) and node.value not in names_within(*shares):
            pairs += _replace_in_definition(launch, tile, node, name)
    return pairs


def _shared_out(axis: cst.BaseExpression, tile: Tile) -> Iterator[cst.BaseExpression]:
    """Yield what a grid takes a part of: half of the blocks is not half of larger ones."""
    divided = (node for node in nodes_within(axis) if isinstance(node, cst.BinaryOperation))
    for node in divided:
        is_part = isinstance(node.operator, cst.FloorDivide)
        if is_part and integer_literal(node.right) != tile.value:
            yield node.left


def _replaced_integers(node: cst.CSTNode, tile: Tile, name: str) -> list[Swap]:
    integers = (integer for integer in _integers_in(node) if integer_literal(integer) == tile.value)
    return [(integer, cst.Name(name)) for integer in integers]


def _replace_in_definition(launch: Launch, tile: Tile, used: cst.Name, name: str) -> list[Swap]:
    """Replace a number in what a name of a grid stands for, where the name is, if others use it."""
    value = launcher_definition(used.value, launch.launcher)
    pairs = [] if value is None else _replaced_integers(value, tile, name)
    if value is None or not pairs:
        return []
    return _replaced_where_used(launch, used, value, pairs)


def _replaced_where_used(
    launch: Launch, used: cst.Name, value: cst.BaseExpression, pairs: list[Swap]
) -> list[Swap]:
    """Return changes to a name's value: at the name, if other launches use it; none if more do."""
    launches = [
        node
        for node in nodes_within(launch.launcher)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Subscript)
    ]
    uses = count_uses(launch.launcher, used.value) - 1
    in_launches = sum(count_uses(call, used.value) for call in launches)
    if in_launches <= 1:
        return pairs
    if in_launches != uses:
        return []
    # a copy: nodes are replaced by identity, and the name keeps its value for the other launches
    return [(used, parenthesized(replace_each(value, pairs)).deep_clone())]


def _may_change_alone(text: KernelText, launch: Launch, tile: Tile) -> bool:
    """Tell whether all that a tile of the grid decides in the launcher changes with it.

    The grid must follow from it, and nothing but grids may be divided by the same number, as a
    buffer's length is. It must not decide how large a tensor is that the launcher returns.
    """
    argument, axes = launch.arguments[tile.name], launch.axes or ()
    if _names_of_tile(launch, tile) & _names_behind_outputs(launch):
        return False
    if tile.axis is None:
        return isinstance(argument, cst.Name) or _are_all_replaced(text, launch, tile)
    if isinstance(argument, cst.Name):
        names = names_within(launch.grid, *axes)
        values = (launcher_definition(name, launch.launcher) for name in sorted(names))
        in_grid = argument.value in names | names_within(*filter(None, values))
        return in_grid or _grid_follows(launch, tile.name)
    if not _replace_in_grid(launch, tile, tile.name):
        return _grid_follows(launch, tile.name)
    grids = {id(node) for node in _nodes_of_grids(text, launch)}
    others = [node for node in nodes_within(launch.launcher) if id(node) not in grids]
    return not any(integer_literal(divisor) == tile.value for divisor in _divisors_among(others))


def _are_all_replaced(text: KernelText, launch: Launch, tile: Tile) -> bool:
    """Tell whether all that a launcher divides by a tile's number changes with it.

    Grids of other launches have numbers of their own.
    """
    names = names_within(*(launch.axes or ()))
    values = (launcher_definition(name, launch.launcher) for name in sorted(names))
    own = {id(n) for n in nodes_within(*(launch.axes or ()), *filter(None, values))}
    grids = {id(node) for node in _nodes_of_grids(text, launch)} - own
    others = [node for node in nodes_within(launch.launcher) if id(node) not in grids]
    divisors = [node for node in _divisors_among(others) if integer_literal(node) == tile.value]
    replaced = {id(node) for nodes in _divisors(launch).values() for node in nodes}
    is_loop = tile.name not in block_constants(launch.function)
    return is_loop or all(id(node) in replaced for node in divisors)


def _names_of_tile(launch: Launch, tile: Tile) -> set[str]:
    """Return the launcher's names that change with a tile: its own, or numbers of blocks."""
    argument, axes = launch.arguments[tile.name], launch.axes or ()
    if isinstance(argument, cst.Name):
        return {argument.value}
    if tile.axis is None or tile.axis >= len(axes):
        return set()
    values = {n: launcher_definition(n, launch.launcher) for n in names_within(axes[tile.axis])}
    return {n for n, value in values.items() if value and _replaced_integers(value, tile, n)}


def _names_behind_outputs(launch: Launch) -> set[str]:
    """Return the names that decide how large the tensors are that a launcher returns."""
    returned, seen = set[str](), set[str]()
    for node in nodes_within(launch.launcher):
        value = node.value if isinstance(node, cst.Return) else None
        elements = value.elements if isinstance(value, cst.Tuple) else ()
        parts = [value, *(element.value for element in elements)]
        returned |= {part.value for part in parts if isinstance(part, cst.Name)}
    while returned:
        definition = launcher_definition(returned.pop(), launch.launcher)
        new = set() if definition is None else names_within(definition) - seen
        seen |= new
        returned |= new
    return seen


def _nodes_of_grids(text: KernelText, launch: Launch) -> Iterator[cst.CSTNode]:
    """Yield the grids of launches, and what the launcher's names in them stand for.

    A launch of what was there before, in an ``else``, is one too. Arguments are no grids: a number
    of tiles that is handed on must follow from their size.
    """
    calls = [
        node.func
        for node in nodes_within(launch.launcher)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Subscript)
    ]
    grids: list[cst.CSTNode] = [
        part for other in text.launches for part in (other.grid, *(other.axes or ()))
    ]
    grids += [element for call in calls for element in call.slice]
    names = sorted(names_within(*grids))
    values = (launcher_definition(name, launch.launcher) for name in names)
    for part in (*grids, *filter(None, values)):
        yield from nodes_within(part)


def _divisors_among(nodes: Iterable[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
    for node in nodes:
        if is_operation(node, cst.FloorDivide):
            yield node.right
        if isinstance(node, cst.Call) and called_name(node) == "triton.cdiv" and len(node.args) > 1:
            yield node.args[1].value


def _integers_in(node: cst.CSTNode) -> list[cst.Integer]:
    return [integer for integer in nodes_within(node) if isinstance(integer, cst.Integer)]


def _with_options(text: KernelText, launch: Launch, larger: Facts | None) -> KernelText:
    """Return the file with warps and stages as parameters of the launcher."""
    function = launch.function
    defaults = {"num_warps": _warps_of_launch(text, launch, larger) if larger else 4}
    if function.loops:
        defaults["num_stages"] = 3
    call, parameters = launch.call, []
    for option, default in defaults.items():
        current = launch.options.get(option)
        value = None if current is None else launcher_integer(current, launch.launcher, text)
        if current is not None and value is None:
            own = _own_default(text, current)
            if own is not None:
                values = WARPS if option == "num_warps" else _STAGES
                parameters.append(
                    Parameter(render_code(current), default if larger else own, values)
                )
            continue
        if value is not None and not larger:
            default = value
        name = option if not _has_keyword(text, option) else text.fresh(option)
        call = _with_option(call, option, name)
        parameters.append(Parameter(name, default, WARPS if option == "num_warps" else _STAGES))
    replaced = read_module(in_statement(text.tree, launch.launcher, [(launch.call, call)]))
    if replaced is None:
        return text
    return read_module(changed_tree(replaced, parameters=parameters)) or text


def _has_keyword(text: KernelText, name: str) -> bool:
    return any(param.name.value == name for param in text.launcher.params.kwonly_params)


def _with_option(call: cst.Call, option: str, name: str) -> cst.Call:
    args = list(call.args)
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == option:
            args[index] = arg.with_changes(value=cst.Name(name))
            return call.with_changes(args=args)
    argument = cst.ensure_type(parse_expression(f"f({option}={name})"), cst.Call).args[0]
    if args:
        last = args[-1]
        like = (
            args[-2].comma
            if len(args) > 1
            else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        )
        multi = isinstance(last.comma, cst.Comma)
        args[-1] = last.with_changes(comma=like)
        argument = argument.with_changes(comma=last.comma if multi else cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=[*args, argument])


def _warps_of_launch(text: KernelText, launch: Launch, facts: Facts) -> int:
    """Return the warps for a launch's blocks, as large as the file says."""
    tiles = {
        tile.name: _own_default(text, launch.arguments[tile.name]) or tile.value
        for tile in _tile_parameters(text, launch)
    }
    sizes = {**facts.constants(launch), **tiles}
    if is_product(launch):
        return warps_of_product(launch, sizes, facts)
    return warps_for(largest_block(launch, sizes)) if tiles else 4
