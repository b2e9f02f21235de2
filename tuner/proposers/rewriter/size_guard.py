"""A winner that leaves inputs to the original kernel whose sizes it was never tried on.

Blocks that fill a GPU at one size start too few programs at a much smaller one, and rows that begin
at any element are read one element at a time. So where a tensor is smaller than any at which a
variant was seen to hold, its file does what the original did. Where a variant was slower, its
launches do not run again: not with strides of that kind, or not at such sizes.

The guard runs in each call, also in one of a few microseconds: it compares counts of elements and
strides, some 70 ns each, and only as many as tell the tried sizes apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import libcst as cst

from solkit.core import Binding, KernelAnalysis, Value
from solkit.errors import InputError
from solkit.tuner.proposers.rewriter._edit import with_defaults
from solkit.tuner.proposers.rewriter._nodes import (
    MOST_STEPS,
    Body,
    Values,
    assigned_names,
    free_name,
    is_docstring,
    names_within,
    nodes_within,
    parse_statement,
    render_code,
    render_module,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form

_LAUNCHER = "kernel"
_MOST_COMPARED = 3
"""Tensors whose elements are counted in a call, the largest first."""
_SAME_ELEMENTS = frozenset(
    "contiguous view reshape flatten t transpose permute squeeze unsqueeze to detach float half "
    "bfloat16".split()
)
"""Methods whose result has as many elements as their tensor."""

_ELEMENTS, _RANK, _EXTENT, _STRIDE = ".numel()", ".dim()", ".shape[", ".stride("
_EVEN = 16
"""Triton compiles a kernel for arguments that can be divided by it, and loads vectors then."""

Layouts = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""Shape and strides of tensors by the launcher's parameter: ``x``, ``parts[0]``."""
Sizes = Mapping[str, int]
"""Sizes of a launcher's tensors by the expression for it: ``x.numel()``, ``x.dim()``,
``x.shape[0]``, ``x.stride(0)``."""


@dataclass(frozen=True)
class SizeBound:
    """Sizes of one tensor at which a variant's own launches run.

    Attributes:
        size: expression for it.
        least: the smallest; 0 if there is no limit.
        most: the largest; ``None`` if there is no limit.
        factor: divides each of them.
    """

    size: str
    least: int
    most: int | None = None
    factor: int = 1

    def holds(self, sizes: Sizes) -> bool:
        """Tell whether the variant's own launches run, as far as this size says."""
        if (size := sizes.get(self.size)) is None:
            return True
        most = math.inf if self.most is None else self.most
        return self.least <= size <= most and size % self.factor == 0

    @property
    def condition(self) -> str:
        """Expression that is true where the original runs."""
        if self.least == self.most:
            return f"{self.size} != {self.least}"
        outside = [f"{self.size} < {self.least}"] if self.least else []
        outside += [] if self.most is None else [f"{self.size} > {self.most}"]
        outside += [f"{self.size} % {self.factor} != 0"] if self.factor > 1 else []
        return " or ".join(outside)


# ------------------------------------------------------------------------------- sizes


def tensor_sizes(
    source: str, kernels: Iterable[KernelAnalysis], inputs: Layouts = MappingProxyType({})
) -> dict[str, int]:
    """Return sizes of a launcher's tensors in one call.

    Args:
        source: the file.
        kernels: its launches in that call.
        inputs: shapes and strides of what is known to be handed on, by parameter.

    Returns:
        Elements, axes, extents and strides of those inputs that each call gets. Of further tensors
        without a default, such as a model's weights: as far as launches get them or views of them.
    """
    sizes: dict[str, set[int]] = {}
    launched = [kernel.launch for kernel in kernels]
    texts = (parse_kernel(source), parse_kernel(canonical_form(source)))
    for text in (text for text in texts if text is not None):
        required = _required_params(text.launcher)
        for name, layout in inputs.items():
            if name.partition("[")[0] in required:
                sizes |= {size: {count} for size, count in _sizes_of(name, *layout)}
        for launch in (launch for launch in text.launches if launch.launcher is text.launcher):
            for record in (r for r in launched if r.name == launch.function.name):
                for size, count in _sizes_in(launch, record.arguments):
                    if size.partition(".")[0] not in inputs:
                        sizes.setdefault(size, set()).add(count)
    return {size: min(counts) for size, counts in sizes.items() if len(counts) == 1}


def _sizes_of(name: str, shape: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield sizes of a tensor by their expressions."""
    yield f"{name}{_ELEMENTS}", math.prod(shape)
    yield f"{name}{_RANK}", len(shape)
    yield from ((f"{name}{_EXTENT}{axis}]", extent) for axis, extent in enumerate(shape))
    yield from ((f"{name}{_STRIDE}{axis})", stride) for axis, stride in enumerate(strides))


def _sizes_in(launch: Launch, bindings: Mapping[str, Binding]) -> Iterator[tuple[str, int]]:
    """Yield sizes of the launcher's parameters that one launch gets."""
    required = _required_params(launch.launcher)
    changed = assigned_names(*statements_of(launch.launcher))
    for name, argument in launch.arguments.items():
        layout = bindings[name].tensor if name in bindings else None
        param = _tensor_behind(argument, launch, MOST_STEPS)
        if layout is None or layout.block or param not in required:
            continue
        if isinstance(argument, cst.Name) and argument.value not in changed:
            yield from _sizes_of(param, layout.shape, layout.strides)
        else:
            yield f"{param}{_ELEMENTS}", math.prod(layout.shape)


def _required_params(launcher: cst.FunctionDef) -> set[str]:
    """Return parameters that each call gives: one with a default may be ``None``."""
    params = (*launcher.params.posonly_params, *launcher.params.params)
    return {param.name.value for param in params if param.default is None}


def _tensor_behind(node: cst.BaseExpression, launch: Launch, steps: int) -> str:
    """Return the name of the tensor that an argument is, or is a view of with all its elements."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in _SAME_ELEMENTS:
            return ""
        node = node.func.value
    if not isinstance(node, cst.Name):
        return ""
    is_param = node.value in _required_params(launch.launcher)
    value = None if is_param else launcher_definition(node.value, launch.launcher)
    if value is None or not steps:
        return node.value
    return _tensor_behind(value, launch, steps - 1)


def bounds_of(here: Sizes, trials: Sequence[tuple[Sizes, bool]]) -> tuple[SizeBound, ...]:
    """Return sizes at which a variant runs: no smaller ones, and none where it was slower.

    Strides are kept even if it was slower with an uneven one, and never faster.

    Args:
        here: sizes at which it was found.
        trials: others at which it was tried, and whether it was slower there or failed.

    Returns:
        As few as tell all of them apart; empty if nothing is known of any tensor.
    """
    held = [here, *(sizes for sizes, is_slow in trials if not is_slow)]
    slower = [sizes for sizes, is_slow in trials if is_slow]
    distinct = _distinct_sizes(here, [*held, *slower])
    bounds = {
        size: SizeBound(size, min(sizes[size] for sizes in held))
        for size in distinct
        if _STRIDE not in size
    }
    counted = [size for size in bounds if size.endswith(_ELEMENTS) and bounds[size].least > 1]
    kept = set(counted[:_MOST_COMPARED])
    strides = [size for size in distinct if _STRIDE in size]
    for slow in slower:
        uneven = _uneven_strides(strides, slow, held)
        bounds |= {stride: SizeBound(stride, 0, factor=_EVEN) for stride in uneven}
        kept.update(uneven)
        if all(bounds[size].holds(slow) for size in kept):
            options = [b for size in bounds for b in _narrowed(bounds[size], slow, held)]
            if options:  # the first of those that lose the fewest sizes at which it held
                bound = min(options, key=lambda b: sum(not b.holds(sizes) for sizes in held))
                bounds[bound.size] = bound
                kept.add(bound.size)
    return tuple(_with_ranks([bounds[size] for size in bounds if size in kept], here))


def _with_ranks(bounds: Sequence[SizeBound], here: Sizes) -> Iterator[SizeBound]:
    """Yield bounds, those of an axis behind the number of axes: other calls may lack the axis."""
    ranked = set[str]()
    for bound in bounds:
        tensor, _, axis = bound.size.replace(_STRIDE, _EXTENT).partition(_EXTENT)
        if axis and (rank := f"{tensor}{_RANK}") in here and rank not in ranked:
            ranked.add(rank)
            yield SizeBound(rank, here[rank], here[rank])
        yield bound


def _distinct_sizes(here: Sizes, every: Sequence[Sizes]) -> list[str]:
    """List sizes that are known of each call: elements first, larger ones first, strides last.

    Of those that are equal in all calls the first stands for all.
    """

    def kind_of(size: str) -> int:
        return 2 if _STRIDE in size else int(not size.endswith(_ELEMENTS))

    named = [size for size in here if not size.endswith(_RANK)]
    order = sorted(named, key=lambda size: (kind_of(size), -here[size]))
    seen: dict[tuple[int, tuple[int, ...]], str] = {}
    for size in order:
        if all(size in sizes for sizes in every):
            values = tuple(sizes[size] for sizes in every)
            seen.setdefault((kind_of(size), values), size)
    return list(seen.values())


def _uneven_strides(strides: Sequence[str], slow: Sizes, held: Sequence[Sizes]) -> list[str]:
    """Return a tensor's smallest stride that was even wherever a variant held, and is not now.

    Larger strides of a contiguous tensor are multiples of it. Tensors of more elements come first.
    """
    by_tensor: dict[str, str] = {}
    for stride in strides:  # the largest first
        if _is_uneven(stride, slow, held):
            by_tensor[stride.partition(_STRIDE)[0]] = stride
    elements = {tensor: held[0].get(f"{tensor}{_ELEMENTS}", 0) for tensor in by_tensor}
    tensors = sorted(by_tensor, key=lambda tensor: -elements[tensor])
    return [by_tensor[tensor] for tensor in tensors[:_MOST_COMPARED]]


def _is_uneven(size: str, slow: Sizes, held: Sequence[Sizes]) -> bool:
    """Tell whether a size was even wherever a variant held, and is not where it was slower."""
    return slow[size] % _EVEN != 0 and all(sizes[size] % _EVEN == 0 for sizes in held)


def _narrowed(bound: SizeBound, slow: Sizes, held: Sequence[Sizes]) -> Iterator[SizeBound]:
    """Yield bounds that leave out where it was slower, if the size is another than that found at.

    Those of uneven sizes come first: they lose nothing at which it held.
    """
    limit, here = slow[bound.size], held[0][bound.size]
    counts = [sizes[bound.size] for sizes in held]
    if limit == here or _STRIDE in bound.size:
        return
    if _is_uneven(bound.size, slow, held):
        yield replace(bound, factor=_EVEN)
    if limit < here:
        least = min(count for count in counts if count > limit)
        yield replace(bound, least=max(bound.least, least))
    else:
        most = max(count for count in counts if count < limit)
        yield replace(bound, most=most if bound.most is None else min(bound.most, most))


# ------------------------------------------------------------------------------- joining


def with_original_outside(
    source: str, original: str, params: Mapping[str, Value], bounds: Sequence[SizeBound]
) -> str:
    """Return a file that does what another one did where a tensor's size is out of its bounds.

    Args:
        source: of the file.
        original: source of the other one.
        params: the other one's parameters in use.
        bounds: of sizes for which the file's own launches run.

    Raises:
        InputError: there are no bounds; a launcher is not at the top of its file; or they differ,
            take arguments that cannot be passed on, or use a name for several things.
    """
    text = parse_kernel(source)
    other = parse_kernel(original) or parse_kernel(canonical_form(original))
    if not bounds:
        raise InputError("nothing shows the size of a tensor that each call gets")
    if text is None or other is None:
        raise InputError(f"no function {_LAUNCHER!r} is defined at the top of its file")
    other = parse_kernel(with_defaults(other, params)) or other
    if not (call := _call_of(text, other)):
        raise InputError("its launcher does not take the original's arguments one by one")
    copied = _copied_definitions(text, other)
    before = cst.ensure_type(dict(copied)[_LAUNCHER], cst.FunctionDef)
    outside = " or ".join(bound.condition for bound in bounds)
    guard = parse_statement(f"if {outside}:\n    return {before.name.value}({call})\n")
    launcher = with_body(text.launcher, [*_with_guard(statements_of(text.launcher), guard)])
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for statement in text.tree.body:
        if statement is text.launcher:
            body += [copy for _, copy in copied]
        body.append(launcher if statement is text.launcher else statement)
    return render_module(text.tree.with_changes(body=body))


def _with_guard(body: Body, guard: cst.BaseStatement) -> Iterator[cst.BaseStatement]:
    """Yield a launcher's statements with the guard first, behind a docstring."""
    doc = body[:1] if body and is_docstring(body[0]) else []
    yield from (*doc, guard, *body[len(doc) :])


def _call_of(text: KernelText, other: KernelText) -> str | None:
    """Return the arguments that pass a launcher's parameters on to the other one."""
    sides = []
    for launcher in (text.launcher, other.launcher):
        params = launcher.params
        if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
            return None
        sides.append([p.name.value for p in (*params.posonly_params, *params.params)])
    return ", ".join(sides[0]) if sides[0] == sides[1] else None


# ------------------------------------------------------------------------------- definitions


def _definitions(tree: cst.Module) -> Iterator[tuple[str, cst.BaseStatement]]:
    """Yield the names that a module's statements bind, with the statement; imports are none."""
    for statement in tree.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield statement.name.value, statement
        elif isinstance(statement, cst.SimpleStatementLine):
            for node in statement.body:
                targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
                targets += [node.target] if isinstance(node, cst.AnnAssign) else []
                yield from ((t.value, statement) for t in targets if isinstance(t, cst.Name))


def _copied_definitions(text: KernelText, other: KernelText) -> list[tuple[str, cst.BaseStatement]]:
    """Return what the other file's launcher needs and this one lacks, under names that are free.

    Raises:
        InputError: a name stands for several things.
    """
    bound = [list(_definitions(side.tree)) for side in (text, other)]
    own, definitions = dict(bound[0]), dict(bound[1])
    needed = _needed_names(definitions)
    counts = [Counter(name for name, _ in side) for side in bound]
    for name in sorted(needed):  # a function, and what a later statement makes of it
        if any(count[name] > 1 for count in counts):
            raise InputError(f"{name!r} is defined twice")
    differing = {n for n in needed if _code_of(own.get(n)) != _code_of(definitions[n])}
    while True:  # what names something that differs differs itself
        more = {n for n in needed - differing if names_within(definitions[n]) & differing}
        if not more:
            break
        differing |= more
    differing.add(_LAUNCHER)
    inner = {n for name in differing for n in _inner_names(definitions[name])}
    if differing & inner:
        raise InputError(f"{min(differing & inner)!r} stands for a definition and within one")
    taken = names_within(text.tree, other.tree)
    renamed = {name: cst.Name(free_name(f"{name}_before", taken)) for name in sorted(differing)}
    copies: list[tuple[str, cst.BaseStatement]] = []
    for name, statement in definitions.items():
        if name in differing:
            copies.append((name, _renamed(statement, renamed)))
    return copies


def _renamed(statement: cst.BaseStatement, names: Values) -> cst.BaseStatement:
    """Return a statement under other names: what it binds of its own keeps its name."""
    copy = substitute_names(statement, names)
    if isinstance(copy, (cst.FunctionDef, cst.ClassDef)) and copy.name.value in names:
        copy = copy.with_changes(name=names[copy.name.value])
    return copy


def _needed_names(definitions: Mapping[str, cst.BaseStatement]) -> set[str]:
    """Return names of definitions that the launcher uses, itself and all that these use."""
    needed, pending = set[str](), [_LAUNCHER]
    while pending:
        name = pending.pop()
        if name in definitions and name not in needed:
            needed.add(name)
            pending += sorted(_free_names(definitions[name]))
    return needed


def _inner_names(statement: cst.BaseStatement) -> set[str]:
    """Return parameters and names that a definition binds within."""
    if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return set()
    params = {n.name.value for n in nodes_within(statement) if isinstance(n, cst.Param)}
    return params | set(assigned_names(*statements_of(statement)))


def _free_names(statement: cst.BaseStatement) -> set[str]:
    """Return names that a definition reads, its decorators and attributes' bases too."""
    return {node.value for node in nodes_within(statement) if isinstance(node, cst.Name)}


def _code_of(statement: cst.BaseStatement | None) -> str:
    return "" if statement is None else render_code(statement)
