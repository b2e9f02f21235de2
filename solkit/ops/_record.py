"""The record of an operator: all that any pass asks of it.

Every property defaults to *unknown* (``None``, or an empty name of a rule), which is not the same
as *no*. A pass that proves something (`solkit.roofline.work.avoidable_work`, `sparsity`) takes
unknown for whatever proves least; a pass that describes (costs, liveness) takes the operator whole.

The names of rules (`Operator.cost`, `needs`, `writes`, `zeros`, `limits`) are those under which
the passes register them: a new operator of a known kind takes one record and no code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any


class Family(Enum):
    """A kind of operators, a file of this room each."""

    UNKNOWN = "unknown"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    COPY = "copy"
    CREATION = "creation"
    DISTANCE = "distance"
    FILL = "fill"
    LINALG = "linear algebra"
    LOOKUP = "lookup"
    LOSS = "loss"
    MOVE = "move"
    NORM = "norm"
    OPTIMIZER = "optimizer"
    ORDER = "order"
    POINTWISE = "pointwise"
    POOL = "pool"
    PRODUCT = "product"
    QUANTISATION = "quantisation"
    QUERY = "query"
    RANDOM = "random"
    RECURRENT = "recurrent"
    REDUCTION = "reduction"
    RESAMPLING = "resampling"
    SCAN = "scan"
    SCATTER = "scatter"
    SOFTMAX = "softmax"
    SPARSE = "sparse"
    SPECTRAL = "spectral"


class Selects(Enum):
    """The elements of its operands that an operator may do without."""

    NOTHING = "nothing"
    SOME = "some"  # values of an operand, or arguments, say which are needed
    NAMED = "named"  # all but those that an index names
    AFTER_LARGEST = "after the largest"  # of bounded values nothing is larger
    AFTER_LEAST = "after the least"
    AFTER_EITHER = "after either"
    AFTER_ONE = "after one"  # one element may decide


class Monotone(Enum):
    """The order of results, by that of one operand's values while the others stay."""

    NO = "no"
    RISING = "rising"
    FALLING = "falling"
    EITHER = "either"  # by the operand, or by the sign of another one


class Reduction(Enum):
    """A reduction that depends on each element, or does not (`OTHER`)."""

    SUM = "sum"
    MEAN = "mean"
    LARGEST = "largest"
    LEAST = "least"
    PRODUCT = "product"
    LOG_SUM_EXP = "log of the sum of exponentials"
    NORM = "norm"
    WINDOW_MEAN = "mean of a window"
    OTHER = "other"


class OfOne(Enum):
    """The reduction of a single element."""

    ITSELF = "itself"
    CONSTANT = "constant"


class Normalised(Enum):
    """The form of normalised results, of which the last element follows from the others."""

    SUM_ONE = "sum one"  # softmax
    LOG_SUM_ONE = "sum of exponentials one"
    CENTRED = "mean zero, variance one"
    SCALED = "mean square one"


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One ATen overload packet, or an op that SolKit keeps whole.

    "Zero at zero" and the like hold for an element of the result and the same element of an
    operand, at finite values of the others.

    Attributes:
        name: namespace and packet, e.g. ``"aten.mm"``.
        family: its kind.
        in_place_of: the operator of which it is the in-place form.
        called: names in `torch.nn.functional` and `torch` that become this operator.
        launches: whether it runs anything on a GPU; ``False`` if it asks or allocates.
        looks: whether the host learns what is in a tensor.
        cost: the rule of `solkit.roofline.work.costs`.
        operations: (scalar operations, special functions) per element, for rules that take them.
        complex_operations: the same of complex elements, in real operations.
        bitwise: whether it works on words, so on four one-byte elements at once.
        needs: the rule of `solkit.roofline.work.liveness` for what a part of the result needs.
        writes: the rule there for what its in-place form reads and writes.
        overwrites: whether its in-place form reads nothing of its target.
        replaces: whether its in-place form leaves no element as it was, but for chance.
        reads_shape: whether it reads no more than the shape of its tensors.
        crosses: whether it may copy from or to the host.
        aligned: whether each element of the result depends on the same element of each operand
            alone, though torch does not tag it ``pointwise``.
        zeros: the rule of `solkit.roofline.work.zero_propagation` for zeros that the program fixes.
        limits: the rule of `solkit.roofline.work.constants` for the range of the results.
        rounds: whether results are rounded, so that a range is inexact.
        wraps: whether integer results overflow.
        least, most: limits of all results; infinite where there is none.
        monotone: whether it keeps or reverses the order of values.
        zero_at_zero: whether f(0) = 0.
        zero_at_minus_inf: whether f(-inf) = 0.
        minus_inf_at_zero: whether f(0) = -inf.
        keeps_minus_inf: whether f(-inf) is infinite.
        parity: 1 if f(-x) = f(x), -1 if f(-x) = -f(x), 0 if neither or unknown.
        flattens_to_zero: whether it sends a range of values to zero, or may by its arguments.
        makes_zeros: whether it puts zeros among its results, whatever its operands.
        moves: whether each element of the result is one of an operand, converted at most.
        negates: the same with the sign reversed.
        whole: whether its results are integers.
        scales: whether it multiplies ``self`` by a function of ``other``.
        linear: whether it is linear in each operand alone.
        nonlinear: whether it leaves a result without structure: elementwise and of no low rank.
        sums: whether it adds its operands elementwise.
        adds_terms: whether it adds terms with factors (``alpha``, ``beta``, ``value``, ``weight``).
        commutes: whether its two operands may change places.
        cancels_equal: whether it is zero for two equal operands.
        exponentials: arguments, parted by spaces, of whose elements it takes an exponential each,
            up to a shift; of several it takes the logarithm of their sum.
        logarithms: the argument of whose elements it takes a logarithm each.
        taken_in: functions of its results, by name, of which each saves one of its special
            functions: ``"square"`` and ``"divisor"`` however they are written, ``"order"`` where
            they are only compared.
        inverts: the operator of whose results it takes one special function less.
        multiplies: whether a zero in one operand makes another one needless.
        divides: likewise, but the operand ``other`` is a divisor.
        neutral: arguments, parted by spaces, and the value of one of them with which the in-place
            form changes nothing.
        compares: the comparison, e.g. ``"gt"``.
        selects: the elements of its operands that it may do without.
        covers: whether it may put a new element in place of each one of ``self``.
        decides: arguments that say which elements are needed, all of which are read.
        lookups: the argument that is a table.
        chooses: whether its last result is an index of what was chosen.
        reduces: the reduction over ``dim``.
        of_one: the result over a single element.
        normalises: the form of its results.
        amplifies: whether an operand's small relative error may be a large one of the result, as of
            the exponential of a large number.
        affine: whether it applies ``weight`` and ``bias`` to its first result alone.
        averages: whether training moves running averages that it is given.
        random: whether its results are drawn.
        attends: the order of the dimensions of a fused attention's operands: "heads first" or
            "rows first".
        factors: arguments that a product multiplies, in order.
        irreducible: whether no known algorithm avoids multiplications of unstructured factors.
        axes: axes along which its windows slide.
        gates: matrices of a recurrent cell, by hidden unit.
        sweeps: how often a factorisation goes through the columns one by one.
    """

    name: str
    family: Family = Family.UNKNOWN
    in_place_of: str = ""
    called: tuple[str, ...] = ()
    launches: bool = True
    looks: bool = False
    cost: str = ""
    operations: tuple[int, int] | None = None
    complex_operations: tuple[int, int] | None = None
    bitwise: bool = False
    needs: str = ""
    writes: str = ""
    overwrites: bool = False
    replaces: bool | None = None
    reads_shape: bool = False
    crosses: bool = False
    aligned: bool = False
    zeros: str = ""
    limits: str = ""
    rounds: bool = False
    wraps: bool = False
    least: float | None = None
    most: float | None = None
    monotone: Monotone | None = None
    zero_at_zero: bool | None = None
    zero_at_minus_inf: bool | None = None
    minus_inf_at_zero: bool | None = None
    keeps_minus_inf: bool | None = None
    parity: int = 0
    flattens_to_zero: bool | None = None
    makes_zeros: bool | None = None
    moves: bool | None = None
    negates: bool | None = None
    whole: bool = False
    scales: bool = False
    linear: bool | None = None
    nonlinear: bool | None = None
    sums: bool = False
    adds_terms: bool = False
    commutes: bool = False
    cancels_equal: bool = False
    exponentials: str = ""
    logarithms: str = ""
    taken_in: tuple[str, ...] = ()
    inverts: str = ""
    multiplies: bool | None = None
    divides: bool = False
    neutral: tuple[str, float] | None = None
    compares: str = ""
    selects: Selects | None = None
    covers: bool = False
    decides: tuple[str, ...] = ()
    lookups: str = ""
    chooses: bool = False
    reduces: Reduction | None = None
    of_one: OfOne | None = None
    normalises: Normalised | None = None
    amplifies: bool = False
    affine: bool = False
    averages: bool = False
    random: bool | None = None
    attends: str = ""
    factors: tuple[str, ...] = ()
    irreducible: bool | None = None
    axes: int = 0
    gates: int = 0
    sweeps: int = 0


def records(
    names: str, family: Family, *, namespace: str = "aten", **fields: Any
) -> tuple[Operator, ...]:
    """One record per name, alike but for it.

    Args:
        names: without namespace, separated by spaces.
        family: of all of them.
        namespace: of all of them.
        fields: of `Operator`.
    """
    return tuple(
        Operator(name=f"{namespace}.{name}", family=family, **fields) for name in names.split()
    )


_PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "least": -math.inf,
        "most": math.inf,
        "monotone": Monotone.NO,
        "zero_at_zero": False,
        "zero_at_minus_inf": False,
        "minus_inf_at_zero": False,
        "keeps_minus_inf": False,
        "flattens_to_zero": False,
        "makes_zeros": False,
        "multiplies": False,
        "selects": Selects.NOTHING,
    }
)
"""Properties of results that mix elements, all of them needed, and are zero by chance alone."""

_COPIED: Mapping[str, Any] = MappingProxyType(
    {
        **_PLAIN,
        "moves": True,
        "monotone": Monotone.RISING,
        "zero_at_zero": True,
        "keeps_minus_inf": True,
    }
)
"""Properties of results that are elements of the operands."""


def plain(names: str, family: Family, **fields: Any) -> tuple[Operator, ...]:
    """Return records with plain properties, as far as `fields` say nothing else."""
    return records(names, family, **{**_PLAIN, **fields})


def copied(names: str, family: Family, **fields: Any) -> tuple[Operator, ...]:
    """Return records with the properties of a copy, as far as `fields` say nothing else."""
    return records(names, family, **{**_COPIED, **fields})
