"""Types that suit the pipes: narrow operands of products, fp32 sums, no needless fp64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from solkit.roofline.precision_routes import TRITON_PRECISIONS, triton_precisions
from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._distinct_names import with_distinct_values
from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    Swap,
    argument_of,
    called_name,
    calls_within,
    count_uses,
    integer_literal,
    names_within,
    parenthesized,
    parse_expression,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_operation
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, parse_kernel
from solkit.tuner.proposers.rewriter._products import as_product
from solkit.tuner.proposers.rewriter._variants import joint_variant
from solkit.tuner.proposers.rewriter.loop_ends import chooses_larger

_WIDE = ("tl.float32", "tl.float64")
_NARROW_SUMS = ("tl.float16", "tl.bfloat16", "tl.float64")


class Operands:
    """Products go to the tensor cores, with operands as narrow as they were loaded.

    Applies to ``tl.dot`` of operands that were widened to fp32 or fp64 for it, in place or by the
    name's only assignment, and to ``tl.sum`` of a product of two blocks with three axes, which
    becomes ``tl.dot``. The weights of a softmax get the type that the other operand was loaded in.
    """

    kind = "operands"
    helps = (
        *("wrong pipe", "scalar product", "wide product", "doubles", "conversions"),
        *("instructions", "extra work"),
    )

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Products in {} can use the tensor cores at the rate of the types that are loaded"
        return joint_variant(text, facts, _suited, intent, "wrong pipe", "extra work")


class Accumulators:
    """Sums are kept in fp32.

    Applies to blocks of zeros in fp16, bf16 or fp64 that a loop adds to: fp32 is exact enough for
    the first two, and many times as fast as fp64.
    """

    kind = "accumulators"
    helps = ("wrong pipe", "doubles", "conversions")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        return joint_variant(text, facts, _fp32_sums, "Sums in {} are in fp32")


class Precision:
    """Products of fp32 operands take passes of tf32, where the referee accepts their errors.

    Applies to ``tl.dot`` that asks for ``"ieee"`` products, or for no tf32. The bound tells which
    routes the file's tolerance admits for the products of its reference; each has to admit it.
    Products before an exponential and others may take different ones. tf32 holds all factors that
    16 bits hold.
    """

    kind = "precision"
    helps = ("wrong pipe", "scalar product", "wide product")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        exact = [f for f in text.used.values() if _with_precision(f, "tf32") is not f.node]
        for precision, route in admitted_precisions(facts) if exact else ():
            new = {}
            for name, function in text.used.items():
                node = _with_precision(function, precision)
                if node is not function.node:
                    new[name] = node
            if new:
                names, why = ", ".join(new), facts.explain_factors("wrong pipe")
                yield Variant(
                    changed_text(text, functions=new),
                    f"Products in {names} run as {route}, which the tolerance admits{why}.",
                )
        if exact and (source := _with_two_precisions(text, facts)):
            why = facts.explain_factors("wrong pipe")
            yield Variant(
                source,
                "Products before an exponential run in passes of tf32, and others in one, as the "
                f"tolerance admits{why}.",
            )


def admitted_precisions(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield precisions that each product of the reference admits, and the bound's words."""
    if facts.brief.result is not None:
        yield from triton_precisions(facts.brief.result.bound)


def with_fewest_passes(source: str, facts: Facts) -> str:
    """Return a file whose exact products take as few passes as the tolerance admits."""
    text = parse_kernel(source) if '"ieee"' in source else None
    offered = [] if text is None else Precision().variants(text, facts)
    return min((v.source for v in offered), key=lambda s: s.count('"tf32x3"'), default=source)


_SENSITIVE = "before an exponential"
"""In the bound's words for products whose errors grow in an exponential."""


def _with_two_precisions(text: KernelText, facts: Facts) -> str:
    """Return the file with one pass of tf32 where no exponential follows; empty if none can be."""
    one, three = (
        {is_sensitive for is_sensitive in (True, False) if _admits(facts, words, is_sensitive)}
        for _, words in TRITON_PRECISIONS
    )
    if one != {False} or True not in three:
        return ""
    new = {}
    for name, function in text.used.items():
        node = _with_precision(function, "tf32x3", _before_exponentials(function))
        new[name] = _with_precision(replace(function, node=node), "tf32")
    codes = {render_code(node) for node in new.values()}
    is_both = all(any(f'"{word}"' in code for code in codes) for word, _ in TRITON_PRECISIONS)
    return changed_text(text, functions=new) if is_both else ""


def _admits(facts: Facts, words: Sequence[str], is_sensitive: bool) -> bool:
    """Tell whether all of the reference's products of a sort admit a route, and there are some."""
    routes = () if facts.brief.result is None else facts.brief.result.bound.routes
    own = [route for route in routes if (_SENSITIVE in route.kind) is is_sensitive]
    priced = {r.kind for r in own if r.route in words and r.is_accepted and r.rate}
    return bool(own) and priced == {route.kind for route in own}


def _before_exponentials(function: JitFunction) -> list[cst.Call]:
    """Return the products of a function that exponents follow from."""
    bindings = assignments_in(walk_statements(function.body))
    exponentials = calls_within(function.node, *EXPONENTIALS)
    exponents, count = names_within(*exponentials), 0
    while count != len(exponents):
        count = len(exponents)
        for binding in bindings:
            exponents |= names_within(binding.value) if binding.target in exponents else set()
    values = [binding.value for binding in bindings if binding.target in exponents]
    return [call for node in (*exponentials, *values) for call in calls_within(node, "tl.dot")]


def _with_precision(
    function: JitFunction, precision: str, products: Sequence[cst.Call] | None = None
) -> cst.FunctionDef:
    """Return a function whose exact products, or some of them, are in another precision."""
    pairs: list[Swap] = []
    for call in calls_within(function.node, "tl.dot") if products is None else products:
        for arg in call.args:
            word = "" if arg.keyword is None else arg.keyword.value
            code = render_code(arg.value)
            if (word, code.strip("\"'")) in _EXACT:
                name = cst.Name("input_precision")
                value = parse_expression(f'"{precision}"')
                pairs.append((arg, arg.with_changes(keyword=name, value=value)))
    return replace_each(function.node, pairs) if pairs else function.node


_EXACT = (("input_precision", "ieee"), ("allow_tf32", "False"))


def with_products(text: KernelText) -> str:
    """Return the file with products that suit the tensor cores; empty if that changes nothing."""
    new = {name: node for name, f in text.used.items() if (node := _suited(f)) is not None}
    return changed_text(text, functions=new) if new else ""


def _suited(function: JitFunction) -> cst.FunctionDef | None:
    plain = with_distinct_values(function)
    node = _of_one_type(_narrow_product(_with_products(replace(function, node=plain))))
    return node if render_code(node) != render_code(plain) else None


def _with_products(function: JitFunction) -> cst.FunctionDef:
    pairs: list[Swap] = []
    for call in calls_within(function.node, "tl.sum"):
        axis = argument_of(call, 1, "axis")
        place = None if axis is None else integer_literal(axis)
        value = call.args[0].value
        if place is not None and (product := as_product(value, place)):
            pairs.append((call, parse_expression(product)))
    return replace_each(function.node, pairs)


def _of_one_type(node: cst.FunctionDef) -> cst.FunctionDef:
    """Widen what is multiplied as it was loaded with weights in fp32, as the product did that sums.

    ``tl.dot`` takes operands of one type alone.
    """
    values, pairs = _assigned_values(node), list[Swap]()

    def value_of(operand: cst.BaseExpression) -> cst.BaseExpression:
        inner = _inner_operand(operand)
        own = values.get(render_code(inner), [])
        return own[0] if len(own) == 1 else inner

    for call in calls_within(node, "tl.dot"):
        one, other = call_args(call)[:2]
        for weights, loaded in ((one, other), (other, one)):
            is_wide = calls_within(value_of(weights), *EXPONENTIALS)
            if is_wide and called_name(value_of(loaded)) == "tl.load":
                wide = f"{render_code(parenthesized(loaded))}.to(tl.float32)"
                pairs.append((loaded, parse_expression(wide)))
    return replace_each(node, pairs)


def _narrow_product(node: cst.FunctionDef) -> cst.FunctionDef:
    """Leave operands as narrow as they were loaded, where both of a product can be."""
    widened, values = _widened_names(node), _assigned_values(node)
    while True:
        pairs: list[Swap] = []
        stuck: set[str] = set()
        for call in calls_within(node, "tl.dot"):
            both = call_args(call)[:2]
            narrower = [_unwidened(operand, widened) for operand in both]
            for one, other in ((0, 1), (1, 0)):
                if narrower[one] and not narrower[other]:  # they must be of one type
                    narrower[other] = _narrowed_as(both[other], both[one], values)
            if all(narrower):
                pairs += [*narrower[0], *narrower[1]]
            else:
                stuck |= {render_code(_inner_operand(operand)) for operand in both} & widened.keys()
        if not stuck:
            return replace_each(node, pairs)
        widened = {name: value for name, value in widened.items() if name not in stuck}


def _inner_operand(operand: cst.BaseExpression) -> cst.BaseExpression:
    """Return what is transposed, or 0 where a mask says so."""
    if called_name(operand) in ("tl.trans", "tl.where"):
        inner = argument_of(operand, int(called_name(operand) == "tl.where"))
        return operand if inner is None else _inner_operand(inner)
    return operand


def _assigned_values(node: cst.FunctionDef) -> dict[str, list[cst.BaseExpression]]:
    """Return what each name is assigned."""
    values: dict[str, list[cst.BaseExpression]] = {}
    for binding in assignments_in(walk_statements([node])):
        values.setdefault(binding.target, []).append(binding.value)
    return values


def _narrowed_as(
    operand: cst.BaseExpression,
    other: cst.BaseExpression,
    values: dict[str, list[cst.BaseExpression]],
) -> list[Swap]:
    """Return the weights of a softmax, in the type that the other operand was loaded in.

    They are at most 1, so no type is too small for them. Of other values nothing is known.
    """
    own, like = values.get(render_code(_inner_operand(operand)), []), _inner_operand(other)
    if not isinstance(like, cst.Name) or len(own) != 1 or not _is_weight(own[0], values):
        return []
    return [
        (operand, parse_expression(f"{render_code(parenthesized(operand))}.to({like.value}.dtype)"))
    ]


def _is_weight(value: cst.BaseExpression, values: dict[str, list[cst.BaseExpression]]) -> bool:
    """Tell whether it is ``exp(x - m)`` where ``m`` is a maximum that ``x`` is in.

    Or that over a sum with it, as where each trip divides.
    """
    if is_operation(value, cst.Divide):
        return _is_share(value, values)
    if called_name(value) == "tl.where":
        inner, other = (argument_of(value, at) for at in (1, 2))
        is_off = other is not None and render_code(other) in ("0", "0.0", "0.")
        return is_off and inner is not None and _is_weight(_followed(inner, values), values)
    if called_name(value) not in EXPONENTIALS:
        return False
    exponent = argument_of(value, 0)
    exponent = None if exponent is None else _followed(exponent, values)
    if not isinstance(exponent, cst.BinaryOperation):
        return False
    if not isinstance(exponent.operator, cst.Subtract):
        return False
    scores = names_within(exponent.left) - {"tl"}
    peaks = [peak for name in names_within(exponent.right) for peak in values.get(name, [])]
    return bool(peaks) and all(_is_peak(peak, scores, values) for peak in peaks)


def _followed(
    value: cst.BaseExpression, values: dict[str, list[cst.BaseExpression]]
) -> cst.BaseExpression:
    """Return what a name stands for that has one value; others as they are."""
    own = values.get(value.value, []) if isinstance(value, cst.Name) else []
    return own[0] if len(own) == 1 else value


def _is_peak(
    peak: cst.BaseExpression, scores: set[str], values: dict[str, list[cst.BaseExpression]]
) -> bool:
    """Tell whether it is a maximum that scores are in, or of another one that they are in."""
    is_larger = called_name(peak) == "tl.where" and chooses_larger(cst.ensure_type(peak, cst.Call))
    if not is_larger and called_name(peak) not in ("tl.max", "tl.maximum"):
        return False
    if names_within(peak) & scores:
        return True
    inner = [own[0] for n in names_within(peak) if len(own := values.get(n, [])) == 1]
    return any(called_name(part) == "tl.max" and names_within(part) & scores for part in inner)


def _is_share(value: cst.BinaryOperation, values: dict[str, list[cst.BaseExpression]]) -> bool:
    """Tell whether it is a weight over sums of weights that it is one of: at most 1."""
    weight = value.left
    totals = [t for name in names_within(value.right) for t in values.get(name, [])]
    is_summed = bool(totals) and all(
        render_code(weight) in names_within(*calls_within(total, "tl.sum")) for total in totals
    )
    own = _followed(weight, values)
    return is_summed and own is not weight and _is_weight(own, values)


def _unwidened(operand: cst.BaseExpression, widened: dict[str, cst.BaseExpression]) -> list[Swap]:
    inner = _inner_operand(operand)
    if isinstance(inner, cst.Name) and inner.value in widened:
        value = widened[inner.value]
        return [(value, without_widening(value))]
    plain = without_widening(inner)
    return [] if plain is inner else [(inner, plain)]


def without_widening(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``x`` for ``x.to(tl.float32)``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return node
    to = argument_of(node, 0, "dtype")
    wide = node.func.attr.value == "to" and to is not None and render_code(to) in _WIDE
    return node.func.value if wide else node


def _widened_names(node: cst.FunctionDef) -> dict[str, cst.BaseExpression]:
    """Return names whose only assignment widens a value, and which only products use."""
    operands = [arg.value for call in calls_within(node, "tl.dot") for arg in call.args[:2]]
    in_products = Counter(render_code(_inner_operand(operand)) for operand in operands)
    return {
        name: values[0]
        for name, values in _assigned_values(node).items()
        if len(values) == 1
        and without_widening(values[0]) is not values[0]
        # once assigned; every other use is in a product
        and count_uses(node, name) == 1 + in_products[name]
    }


def _fp32_sums(function: JitFunction) -> cst.FunctionDef:
    added = {
        binding.target
        for statement in walk_statements(function.body)
        if isinstance(statement, cst.For)
        for inner in walk_statements(list(statement.body.body))  # type: ignore[arg-type]
        if (binding := single_assignment(inner)) is not None
    }
    pairs: list[Swap] = []
    for statement in walk_statements(function.body):
        binding = single_assignment(statement)
        if (
            binding is None
            or binding.target not in added
            or called_name(binding.value) != "tl.zeros"
        ):
            continue
        dtype = argument_of(binding.value, 1, "dtype")
        if dtype is not None and render_code(dtype) in _NARROW_SUMS:
            pairs.append((dtype, parse_expression("tl.float32")))
    return replace_each(function.node, pairs) if pairs else function.node
