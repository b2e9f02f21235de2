"""The search for a plan: each root of a program in its cheapest form."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from solkit.roofline.best.axes import Sizes
from solkit.roofline.best.dimensions import Dimensions
from solkit.roofline.best.emission import PlannedTerm, Tensor, Writer
from solkit.roofline.best.graph import Graph, Node, NoPlanError, Value, live_nodes
from solkit.roofline.best.ordering import SCALAR, Applied, Counted, Joined, Plan, Source, best_order
from solkit.roofline.best.regions import Regions
from solkit.roofline.best.rewrites import rewritten
from solkit.roofline.best.simplify import canonical, merged_terms, simplified
from solkit.roofline.best.terms import Labels, Leaf, Term, Triangle

_FREE = frozenset(
    "view _unsafe_view reshape t transpose permute unsqueeze squeeze expand slice select alias "
    "detach clone _to_copy literal zeros ones full eye empty arange split unbind lift_fresh".split()
)
_WORTH = 0.99  # of the traced cost, at the most


@dataclass(frozen=True)
class _Root:
    """A root's plan.

    Attributes:
        cost: as in `solkit.roofline.best.ordering`.
        parts: its terms.
        steps: rewrites that it rests on.
    """

    cost: float
    parts: tuple[PlannedTerm, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Derivation:
    """A program with a plan for it.

    Attributes:
        graph: the traced program.
        dimensions: of the traced program.
        steps: the rewrites, in words.
    """

    graph: Graph
    dimensions: Dimensions
    steps: tuple[str, ...]
    _search: _Search

    def code(self, sizes: Sizes | None = None) -> str:
        """Return the plan as code; at other sizes in doubles."""
        return self._search.code(sizes)

    def traced_code(self, sizes: Sizes | None = None) -> str:
        """Return the traced program as code, likewise."""
        return _traced_code(self.graph, self.dimensions, sizes)

    def input_shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """Return the shapes of the inputs at sizes."""
        writer = Writer(self.graph, self.dimensions, Labels(), sizes)
        return [writer.shape(self.dimensions.of(value)) for value in self.graph.inputs]

    def smaller_sizes(self, count: int) -> list[Sizes]:
        """Return different sets of small sizes of the atoms of program and plan.

        Raises:
            NoPlanError: there are none.
        """
        generator = random.Random(0)
        sets: list[Sizes] = []
        for _ in range(20 * count):
            sizes = self.dimensions.axes.other_sizes(generator)
            if sizes not in sets:
                sets.append(sizes)
            if len(sets) == count:
                return sets
        if not sets:
            raise NoPlanError("no smaller sizes fit")
        return sets


def derive(graph: Graph) -> Derivation:
    """Return the cheapest form of a program.

    Raises:
        NoPlanError: no root has a cheaper form than the traced one.
    """
    traced = replace(graph, nodes=live_nodes(graph))
    whole, steps = rewritten(traced)
    # one analysis of sizes for both programs: the traced one's values keep their numbers
    own = {v for node in traced.nodes for v in node.outputs}
    extra = tuple(n for n in whole.nodes if not set(n.outputs) <= own)
    both = replace(whole, nodes=_in_order(traced, extra))
    dimensions = Dimensions(both)
    search = _Search(replace(whole, nodes=live_nodes(whole)), dimensions)
    search.run()
    if not search.changed and not steps:
        raise NoPlanError("no linear part has a cheaper order")
    words = tuple(dict.fromkeys((*steps, *search.steps))) or (
        "write sums of products as matrix products",
    )
    return Derivation(traced, dimensions, words, search)


def _in_order(graph: Graph, extra: Sequence[Node]) -> tuple[Node, ...]:
    """Return all nodes, each after those that make its inputs."""
    waiting, nodes = [*graph.nodes, *extra], []
    have = set(graph.inputs)
    while waiting:
        ready = next(n for n in waiting if set(n.inputs) <= have)
        waiting.remove(ready)
        nodes.append(ready)
        have |= {v for v in ready.outputs if v is not None}
    return tuple(nodes)


def _traced_code(graph: Graph, dimensions: Dimensions, sizes: Sizes | None) -> str:
    writer = Writer(
        graph, dimensions, Labels(), sizes or dimensions.axes.sizes, exact=sizes is not None
    )
    for node in graph.nodes:
        writer.traced(node)
    return writer.source("reference")


@dataclass
class _Search:
    graph: Graph
    dimensions: Dimensions
    steps: list[str] = field(default_factory=list)
    planned: dict[int, _Root] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.regions = Regions(self.graph, self.dimensions)
        self.labels = self.regions.labels
        self.values = list(self.graph.values)
        self.makers = self.graph.producers()
        linear = set(self.regions._terms) | set(self.regions.terms)
        self._stops = set(self.regions.roots) | {v for v in self.makers if v not in linear}
        self._normalised = self._softmaxes()
        self.names = dict(zip(self.graph.inputs, self.graph.names))
        self.inverses = {
            n.outputs[0]: n.args[0].value
            for n in self.graph.nodes
            if n.op in ("linalg_inv_ex", "linalg_inv", "inverse") and n.outputs[0] is not None
        }

    @property
    def changed(self) -> bool:
        """True if any root has a form of its own."""
        return bool(self.planned)

    @property
    def sizes(self) -> Sizes:
        """The traced sizes of the atoms, those that the search added too."""
        return self.dimensions.axes.sizes

    def _softmaxes(self) -> dict[int, int]:
        places: dict[int, int] = {}
        for node in self.graph.nodes:
            value = node.outputs[0]
            if node.op == "_softmax" and value is not None:
                dims = self.dimensions.of(value)
                dim = node.args[1] % len(dims) if dims else 0
                if dims and len(dims[dim]) == 1:
                    places[value] = sum(map(len, dims[:dim]))
        return places

    def run(self) -> None:
        """Choose the cheapest form of each root."""
        forms: dict[int, _Root] = {}
        for value in self.regions.roots:
            terms = [self._simplified(t) for t in self.regions.terms[value]]
            root = self._root(merged_terms(terms), value)
            if root is not None:
                forms[value] = root
        repeated = self._repeated(forms)
        for value, root in forms.items():
            solves = any(self._solves(part.plan) for part in root.parts)
            if root.cost < _WORTH * self._traced_cost(value) or solves or value in repeated:
                self.planned[value] = root
                self.steps += root.steps
                if solves:
                    self.steps.append("solve a system instead of inverting")
        if repeated:
            self.steps.append("make a repeated product once")

    def _repeated(self, forms: Mapping[int, _Root]) -> set[int]:
        """Return roots with a product that another one has too, but for a factor."""
        owners: dict[object, set[int]] = {}
        for value, root in forms.items():
            for part in root.parts:
                if len(part.term.leaves) > 1:
                    owners.setdefault(canonical(part.term), set()).add(value)
        return {v for values in owners.values() if len(values) > 1 for v in values}

    def _simplified(self, term: Term) -> Term:
        return simplified(term, self.labels, self.dimensions.axes, self._normalised)

    def _traced_cost(self, value: int) -> float:
        """Return the cost of a root as it was traced, from what is made before."""
        waiting, seen, total = [value], set(), 0.0
        while waiting:
            current = waiting.pop()
            if current in seen or current not in self.makers:
                continue
            seen.add(current)
            node = self.makers[current]
            total += self._node_cost(node)
            waiting += [v for v in node.inputs if v not in self._stops]
        return total

    def _node_cost(self, node: Node) -> float:
        if node.op in _FREE:
            return 0.0
        first = next(v for v in node.outputs if v is not None)
        out = self._numel(first)
        if node.op in ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"):
            lhs = self.values[node.inputs[-2]].shape
            return 2.0 * out * lhs[-1]
        if node.op == "convolution":
            weight = self.values[node.arguments["weight"].value].shape
            taps = self._count(weight[1:])
            moved = self._numel(node.inputs[0]) if node.arguments["transposed"] else out
            return 2.0 * moved * taps
        if not any(self._numel(v) for v in node.inputs):
            return 0.0
        return SCALAR * max([out, *(self._numel(v) for v in node.inputs)])

    def _numel(self, value: int) -> float:
        return self._count(self.values[value].shape)

    def _count(self, shape: Sequence[int]) -> float:
        total = 1.0
        for n in shape:
            total *= n
        return total

    # --------------------------------------------------------------------------------- roots

    def _root(self, terms: Sequence[Term], value: int, depth: int = 0) -> _Root | None:
        """Return the cheapest form of a sum of terms."""
        plain = self._planned_terms(terms)
        best = None if plain is None else _Root(plain[0], plain[1], self._words(plain[1]))
        if depth > 3 or len(terms) < 2:
            return best
        for shared in self._shared_values(terms):
            factored = self._factored(terms, shared, value, depth)
            if factored is not None and (best is None or factored.cost < 0.99 * best.cost):
                best = factored
        joined = self._joined_leaves(terms, value, depth)
        if joined is not None and (best is None or joined.cost < 0.99 * best.cost):
            best = joined
        return best

    def _joined_leaves(self, terms: Sequence[Term], value: int, depth: int) -> _Root | None:
        """Return the terms with those joined that differ in one leaf alone, equations too."""
        groups: dict[object, list[tuple[Term, Leaf]]] = {}
        for term in terms:
            for leaf in term.leaves:
                if len(set(leaf.labels)) == len(leaf.labels):
                    groups.setdefault(_key_without(term, leaf), []).append((term, leaf))
        group = max(groups.values(), key=len, default=[])
        if len({id(term) for term, _ in group}) < 2:
            return None
        head, own = group[0]
        parts = [
            Term(
                term.factor,
                term.powers,
                (replace(leaf, labels=own.labels),),
                dims=tuple((n,) for n in own.labels),
            )
            for term, leaf in group
        ]
        number = self._virtual(value, own.labels)
        inner = self._root(merged_terms(parts), number, depth + 1)
        leaves = tuple(Leaf(number, own.labels) if x is own else x for x in head.leaves)
        done = {id(term) for term, _ in group}
        rest = [term for term in terms if id(term) not in done]
        product = replace(head, factor=1.0, powers=(), leaves=leaves)
        whole = self._root([product, *rest], value, depth + 1)
        if inner is None or whole is None:
            return None
        self.planned_virtual[number] = inner
        words = ("add the factors that differ first", *inner.steps, *whole.steps)
        return _Root(inner.cost + whole.cost, whole.parts, tuple(dict.fromkeys(words)))

    def _planned_terms(self, terms: Sequence[Term]) -> tuple[float, tuple[PlannedTerm, ...]] | None:
        total, parts = 0.0, []
        for term in terms:
            if not term.leaves and not term.equations and not term.triangles:
                if len(set(term.results)) < sum(map(len, term.dims)):
                    return None
                parts.append(PlannedTerm(term, None))
                continue
            order = best_order(term, self.labels, self.sizes)
            if order is None:
                return None
            total += order[0] + SCALAR * self.labels.size(order[1].labels, self.sizes)
            parts.append(PlannedTerm(term, order[1]))
        return total, tuple(parts)

    def _shared_values(self, terms: Sequence[Term]) -> list[int | str]:
        """Return values that are one leaf of more than one term."""
        counts: dict[int | str, int] = {}
        for term in terms:
            own = [leaf.value for leaf in term.leaves]
            for value in set(own):
                if own.count(value) == 1:
                    counts[value] = counts.get(value, 0) + 1
        return [value for value, count in counts.items() if count > 1]

    def _factored(
        self, terms: Sequence[Term], shared: int | str, value: int, depth: int
    ) -> _Root | None:
        """Return the terms with a common factor taken out of all that have it."""
        inside: list[Term] = []
        outside: list[Term] = []
        head: Term | None = None
        for term in terms:
            own = [leaf for leaf in term.leaves if leaf.value == shared]
            if len(own) != 1 or term.equations or term.triangles:
                outside.append(term)
                continue
            if head is None:
                head = term
                inside.append(term)
                continue
            aligned = _aligned(term, own[0], head, shared)
            (inside if aligned is not None else outside).append(aligned or term)
        if head is None or len(inside) < 2:
            return None
        leaf = next(leaf for leaf in head.leaves if leaf.value == shared)
        rests = [replace(t, leaves=tuple(x for x in t.leaves if x.value != shared)) for t in inside]
        outer = set(leaf.labels) | head.results
        external = sorted({n for rest in rests for n in rest.bound_labels} & outer)
        if not external:
            return None
        parts = [replace(rest, dims=tuple((n,) for n in external)) for rest in rests]
        number = self._virtual(value, external)
        inner = self._root(merged_terms(parts), number, depth + 1)
        if inner is None:
            return None
        product = Term(leaves=(leaf, Leaf(number, tuple(external))), dims=head.dims)
        whole = self._root([product, *outside], value, depth + 1)
        if whole is None:
            return None
        self.planned_virtual[number] = inner
        name = self.names.get(shared, "a common factor") if isinstance(shared, int) else shared
        words = (f"factor {name} out of the sum", *inner.steps, *whole.steps)
        return _Root(inner.cost + whole.cost, whole.parts, tuple(dict.fromkeys(words)))

    planned_virtual: dict[int, _Root] = field(default_factory=dict)

    def _virtual(self, like: int, labels: Sequence[int]) -> int:
        """Return the number of a value that only the plan has."""
        number = len(self.values)
        dims = tuple((self.labels.atoms[n],) for n in labels)
        shape = tuple(self.sizes[self.labels.atoms[n]] for n in labels)
        self.values.append(Value(shape, self.values[like].dtype))
        self.dimensions._dims[number] = dims
        return number

    def _words(self, parts: Sequence[PlannedTerm]) -> tuple[str, ...]:
        words = [] if parts else ["drop what cancels"]
        for part in parts:
            if part.plan is not None:
                words += _words_of(part.plan, self.names)
            elif not part.term.leaves:
                why = ": softmax sums to one" if self._normalised else ""
                words.append(f"the result is a constant{why}")
        return tuple(dict.fromkeys(words))

    # ------------------------------------------------------------------------- systems, code

    def _solves(self, plan: Plan | None) -> bool:
        if isinstance(plan, Joined):
            sides = (plan.lhs, plan.rhs)
            own = any(self._inverse_side(side, plan) for side in sides)
            return own or any(map(self._solves, sides))
        return self._solves(plan.child) if isinstance(plan, Applied) else False

    def _inverse_side(self, side: Plan, plan: Joined) -> bool:
        if not isinstance(side, Source) or side.leaf.value not in self.inverses:
            return False
        if plan.equations or len(set(side.leaf.labels)) != len(side.leaf.labels):
            return False
        rows, columns = side.leaf.labels[-2:]
        other = plan.rhs if side is plan.lhs else plan.lhs
        summed = {rows, columns} - plan.labels
        batch = set(side.leaf.labels[:-2])
        readers = sum(side.leaf.value in node.inputs for node in self.graph.nodes)
        return (
            len(summed) == 1
            and summed <= other.labels
            and not ({rows, columns} - summed) & other.labels
            and batch <= other.labels & plan.labels
            and readers == 1
        )

    def code(self, sizes: Sizes | None) -> str:
        graph = replace(self.graph, values=tuple(self.values))
        writer = _PlanWriter(
            graph, self.dimensions, self.labels, sizes or self.sizes, exact=sizes is not None
        )
        writer.search = self
        for value in graph.results:
            writer.need(value)
        return writer.source()


class _PlanWriter(Writer):
    """Writes what the results need: planned roots, and traced operators for all else."""

    search: _Search

    def need(self, value: int) -> None:
        """Write a value, after those that it needs."""
        if value in self.names:
            return
        root = self.search.planned.get(value) or self.search.planned_virtual.get(value)
        if root is not None:
            for part in root.parts:
                for leaf in _sources(part.plan):
                    if not self._is_solved(leaf, part.plan):
                        self.need(leaf)
                    else:
                        self.need(self.search.inverses[leaf])
            self.planned(value, [[part] for part in root.parts])
            return
        node = self.search.makers[value]
        for operand in node.inputs:
            self.need(operand)
        self.traced(node)

    def _is_solved(self, value: int, plan: Plan | None) -> bool:
        if isinstance(plan, Joined):
            for side in (plan.lhs, plan.rhs):
                if isinstance(side, Source) and side.leaf.value == value:
                    return self.search._inverse_side(side, plan)
            return any(self._is_solved(value, side) for side in (plan.lhs, plan.rhs))
        return self._is_solved(value, plan.child) if isinstance(plan, Applied) else False

    def _joined(self, plan: Joined, dtype: str) -> Tensor:
        for side, other in ((plan.lhs, plan.rhs), (plan.rhs, plan.lhs)):
            if isinstance(side, Source) and self.search._inverse_side(side, plan):
                return self._solved(plan, side, other, dtype)
        return super()._joined(plan, dtype)

    def _solved(self, plan: Joined, side: Source, other: Plan, dtype: str) -> Tensor:
        """Write the product with an inverse as the solution of a system."""
        *batch, row, column = side.leaf.labels
        summed, kept = (column, row) if column not in plan.labels else (row, column)
        assert isinstance(side.leaf.value, int)
        matrix = self.names[self.search.inverses[side.leaf.value]]
        if summed == row:
            matrix = f"{matrix}.mT"
        rhs = self._step(other, dtype)
        rest = [n for n in rhs.labels if n not in (*batch, summed)]
        order = [rhs.labels.index(n) for n in (*batch, summed, *rest)]
        name = rhs.name
        if order != sorted(order):
            name = self.line(f"{name}.permute({', '.join(map(str, order))})")
        sizes = [self.size(n) for n in (*batch, summed)]
        name = self.line(f"{name}.reshape({self._tuple([*sizes, -1])})")
        name = self.line(f"torch.linalg.solve({matrix}, {name})")
        labels = (*batch, kept, *rest)
        name = self.line(f"{name}.reshape({self._tuple(map(self.size, labels))})")
        return Tensor(name, labels)


def _sources(plan: Plan | None) -> list[int]:
    if isinstance(plan, Source):
        return [plan.leaf.value] if isinstance(plan.leaf.value, int) else []
    if isinstance(plan, Applied):
        return _sources(plan.child)
    if isinstance(plan, Joined):
        return [*_sources(plan.lhs), *_sources(plan.rhs)]
    return []


def _words_of(plan: Plan, names: Mapping[int, str]) -> list[str]:
    """Name the rewrites that a step rests on."""
    if isinstance(plan, Source):
        gone = len(set(plan.leaf.labels)) > len(plan.labels)
        return [f"sum {_name_of(plan, names)} first"] if gone else []
    if isinstance(plan, Counted):
        return ["count how often the sum takes each pair of places"]
    if isinstance(plan, Applied):
        words = _words_of(plan.child, names)
        if isinstance(plan.condition, Triangle):
            own = {plan.condition.row, plan.condition.column} <= plan.child.labels
            return [*words, "mask by the triangle"] if own else [*words, "take running sums"]
        return [*words, "sum windows before the product"] if plan.free else words
    words = [*_words_of(plan.lhs, names), *_words_of(plan.rhs, names)]
    if plan.free:
        return [*words, "fold windows into the weight's taps, phase by phase"]
    for side, other in ((plan.lhs, plan.rhs), (plan.rhs, plan.lhs)):
        if isinstance(side, Joined) and isinstance(other, Source):
            words.append(f"multiply {' and '.join(_all_names(side, names))} first")
    return words


def _name_of(plan: Source, names: Mapping[int, str]) -> str:
    value = plan.leaf.value
    return names.get(value, "an intermediate") if isinstance(value, int) else value


def _all_names(plan: Plan, names: Mapping[int, str]) -> list[str]:
    if isinstance(plan, Source):
        return [_name_of(plan, names)]
    if isinstance(plan, Applied):
        return _all_names(plan.child, names)
    if isinstance(plan, Joined):
        both = [*_all_names(plan.lhs, names), *_all_names(plan.rhs, names)]
        return list(dict.fromkeys(both))
    return ["counts"]


def _key_without(term: Term, leaf: Leaf) -> object:
    """Return a key that terms share which differ in the value of one leaf alone."""
    leaves = tuple(replace(x, value="?") if x is leaf else x for x in term.leaves)
    return canonical(replace(term, leaves=leaves))


def _aligned(term: Term, leaf: Leaf, head: Term, shared: int | str) -> Term | None:
    """Return a term with the labels of the first one on the shared leaf and in the result."""
    model = next(x for x in head.leaves if x.value == shared)
    names: dict[int, int] = {}
    pairs = [*zip(leaf.labels, model.labels)]
    for own, target in zip(term.dims, head.dims):
        if len(own) != len(target):
            return None
        pairs += [*zip(own, target)]
    for old, new in pairs:
        if names.setdefault(old, new) != new:
            return None
    if len(set(names.values())) < len(names):
        return None
    kept = (term.bound_labels | term.results) - set(names)
    if kept & set(names.values()):
        return None
    return term.renamed(names)
