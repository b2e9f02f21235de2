"""Comparison of a candidate's outputs with the reference's, and where they differ.

If the exact outputs are known, an output may differ from them by as much as a good algorithm's
rounding explains, in any order of operations.

Notation
    y, y_got     the exact output (`solkit.measure.checking.exact`) and the candidate's
    y_ref        the reference's
    u            unit roundoff of the output's dtype: 2^-24 fp32, 2^-11 fp16, 2^-8 bf16
    sigma        how much y changes per relative change of its inputs (`Exact.sensitivity`)
    c            relative error allowed for computing

::

    |y_got - y| <= 2 u |y|  +  c (|y| + sigma)  +  lambda
                   storing     computing           underflow

A good algorithm's result is the exact result of inputs that are off by a few units of roundoff,
then rounded for storage: its error is that backward error times the condition, here sigma (Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd ed., sections 1.5 and 1.6; for inner products
3.1, where |error| <= gamma_n |x|'|y|, of which sigma is what n errors of random signs leave: Higham
& Mary, SIAM J. Sci. Comput. 41(5), 2019). The effect on c of long sums and of fused or repeated
roundings is read off the reference, which did the same work::

    c = max(c0, 4 q)        q: the 99th percentile of (|y_ref - y| - u |y|) / (|y| + sigma)

The factor 4 is 2.1 for the largest of many errors (of 10^7 normal ones it is 2.1 times the 99th
percentile), and 2 for a candidate that rounds worse than the reference. Where an output has few
elements, q is taken over nearby inputs as well (`Exact.nearby`): one error may be small by chance,
as where the rounding of two logarithms is most of a divergence of nearly equal rows.

c0 is always allowed: 2^-15 = 512 u in fp32, for longer sums and approximate special functions; 2 u
for narrower outputs, for intermediates rounded once to their dtype, like tensor-core operands. In
fp32, an author whose `rtol` is 1e-3 or more allows tf32 operands (`solkit.core.rounding`), and with
1e-2 or more bf16 ones: c >= 4 * 2^-11 or 4 * 2^-8. Where an input is fp8, c >= 4 * 2^-8, since
tensor cores sum products of fp8 with some 14 bits: 2^-13 of a sum of 4096 products' sizes is 2^-7
of sigma (DeepSeek-V3 report, arXiv 2412.19437, section 3.3.2: errors of nearly 2 %). lambda is the
smallest normal number, since GPUs may flush smaller ones (Higham, chapter 2).

sigma comes from two draws, both of which may be small by chance. So up to 2^-14 of an output's
elements may be off by up to twice as much. Of 8.2 million elements of ``gelu(x * s + b) * g + r``
in bf16, of normal inputs on a CPU, the reference itself breaks the rule above at 86, by up to 1.75
times; with 16 draws at 10.

A place of a maximum, a choice of experts or what is gathered by one jumps where values are equal or
nearly so: which of two equal ones comes first is no kernel's fault. So elements pass that the
reference gives with the candidate's own choices, where these are right
(`solkit.measure.checking.choices`), or that follow the rule around the output of *some* nearby
inputs. If some of an output's elements break it, further draws are made, until all pass or there is
no sense in more: a draw puts two equal values in the other order once in four times.

Where wide arithmetic gives (almost) zero, the reference's own value may be nothing but rounding: a
softmax's sum less one. There any value passes that is as small as the roundings of a few numbers of
the inputs' size, an exact zero included::

    |y_ref| <= 8 u max(1, |x|) and |y| <= 2^-16 |y_ref|  =>  |y_got| <= 8 u max(1, |x|)
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from solkit.core import Tolerance, default_tolerance
from solkit.core.rounding import (
    ADMITTED_OPERANDS,
    MARGIN,
    ROUNDOFF,
    computing_share,
    with_usable_atol,
)
from solkit.measure.checking.exact import Exact, is_inexact
from solkit.measure.checking.remedies import name_admitting

_CHUNK = 1 << 24
"""Elements compared at once: wide copies of a whole output could exhaust GPU memory."""

_EXACT = Tolerance(0.0, 0.0)
_PERCENTILE = 0.99
_LARGEST_SHARE = 0.25
"""A reference with a larger c computes something else in wide arithmetic."""
_SAMPLED = 1 << 20
"""Elements, evenly spaced, that q is taken over."""
_NOISE, _CANCELLED = 8, 2.0**-16
_MOST_DRAWS, _FIRST_DRAWS = 24, 4
"""Further nearby inputs at which elements that break the rule may follow it. Of the orders of two
equal values, one in a thousand is in none of 24. The first four have two thirds of them."""
_FEW_BROKEN, _MOST_BROKEN, _LEAST_FOUND = 8, 0.25, 0.25
"""Elements for which all draws are made; the largest share of an output for which any is; the least
share of broken elements that the first draws find where there are more. Of twelve equal
pairs, the first four draws have fewer than three in the other order once in 3,000 times."""
_DRAWING_S = 2.0
"""Seconds after which no further draw is made: a slow reference would take a search's budget."""
_TAIL, _TAIL_SHARE = 2.0, 2.0**-14
"""Times the rule that few elements may be off, since their sensitivity is small by chance, and the
share of an output's elements that these are."""


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two lists of outputs."""

    max_error: float  # largest finite ``|got - want|`` over all outputs of equal shape
    errors: tuple[str, ...]  # what differs, one sentence per output; empty if they agree


def is_explained(want: Sequence[torch.Tensor], exact: Sequence[Exact]) -> bool:
    """Tell whether the reference itself meets this module's rule.

    If not, rounding decides its outputs, or it draws other random numbers.
    """
    if len(want) != len(exact):
        return False
    pairs = [(w, e) for w, e in zip(want, exact, strict=True) if is_inexact(w)]
    return all(_meets_rule(w, _make_rule(w, None, e)) for w, e in pairs)


def _meets_rule(want: torch.Tensor, rule: _Rule) -> bool:
    if rule.exact is None:
        return False
    flat, largest = _flat_parts(want), torch.finfo(want.dtype).max
    broken = beyond = 0
    for part in _chunk_slices(flat):
        values, here = flat[part].double(), rule.for_elements(part)
        true = rule.exact[part]
        same = (values == true) | (values.isnan() & true.isnan())
        explained = same | _explained_elements(values, values, here, largest)
        if not bool(explained.all()):
            tail = same | _explained_elements(values, values, here.for_tail(), largest)
            broken += int((~explained).sum())
            beyond += int((~tail).sum())
    return not _wrong_elements(broken, beyond, flat.numel())


def _wrong_elements(broken: int, beyond: int, count: int) -> int:
    """Return how many elements are wrong.

    Args:
        broken: elements that break the rule.
        beyond: of these, by more than a sensitivity that is small by chance explains.
        count: of all elements.
    """
    return beyond if broken <= _TAIL_SHARE * count else broken


def compare_outputs(
    got: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    tolerance: Tolerance | None = None,
    exact: Sequence[Exact] | None = None,
) -> Comparison:
    """Compare outputs once: see `Standard.compare`."""
    return Standard(want, tolerance, exact).compare(got)


@dataclass(frozen=True)
class Ties:
    """The reference's outputs where rounding decides, computed when they are asked for.

    Attributes:
        nearby: gives those in wide arithmetic on nearby inputs, by the number of a draw; ``None``
            if there are none.
        chosen: gives those with the right choices among given places; ``None`` likewise.
    """

    nearby: Callable[[int], Sequence[torch.Tensor]] | None = None
    chosen: Callable[[torch.Tensor], Sequence[torch.Tensor]] | None = None


class Standard:
    """The standard that outputs are compared with; prepared once for any number of comparisons.

    Args:
        want: the reference's outputs.
        tolerance: the file's own, for floating outputs.
        exact: the reference's outputs in wide arithmetic.
        check: the file's own ``check(got, want)``.
        scale: the largest number among the floating inputs.
        sums_coarsely: whether inputs are fp8, whose products tensor cores sum with few bits.
        usual_levels: root mean square of each output on the file's own inputs; ``None`` if these
            are they.
        ties: how to get the reference's outputs where rounding decides.
    """

    def __init__(
        self,
        want: Sequence[torch.Tensor],
        tolerance: Tolerance | None = None,
        exact: Sequence[Exact] | None = None,
        check: Callable[[Any, Any], Any] | None = None,
        scale: float = 0.0,
        sums_coarsely: bool = False,
        usual_levels: Sequence[float] | None = None,
        ties: Ties | None = None,
    ) -> None:
        self._want, self._tolerance, self._check = want, tolerance, check
        self._nearby, self._as_chosen = (None, None) if ties is None else (ties.nearby, ties.chosen)
        self._usual_levels = usual_levels
        self._scale, self._least = scale, MARGIN * ROUNDOFF["bfloat16"] * sums_coarsely
        self._exact = exact if exact is not None and len(exact) == len(want) else None
        self._rules: dict[int, _Rule] = {}

    def judge(self, got: Sequence[torch.Tensor]) -> Comparison:
        """Compare outputs, by the file's own ``check(got, want)`` if it has one.

        `check` gets tensors (lists if there are several outputs). It rejects by returning ``False``
        or by an ``AssertionError``. Its author has seen the file's own inputs alone: on others,
        outputs pass as well that this module's rule accepts.
        """
        if self._check is None:
            return self.compare(got)
        rejection = self._rejection(self._check, got)
        if rejection and self._usual_levels is not None:
            comparison = self.compare(got)
            return replace(comparison, errors=(rejection,) if comparison.errors else ())
        comparison = self._compared(got, draws=False)  # the check decides: the rest is for reports
        return replace(comparison, errors=(rejection,) if rejection else ())

    def _rejection(self, check: Callable[[Any, Any], Any], got: Sequence[torch.Tensor]) -> str:
        """Say why the file's own check rejects outputs; empty if it accepts them."""
        single = len(got) == 1 and len(self._want) == 1
        arguments = (got[0], self._want[0]) if single else (list(got), list(self._want))
        try:
            accepted = check(*arguments)
        except AssertionError as error:
            return f"the file's check() rejects it: {error}"
        if accepted is None or bool(accepted):
            return ""
        return f"the file's check() returned {accepted!r}"

    def compare(self, got: Sequence[torch.Tensor]) -> Comparison:
        """Compare outputs elementwise, by this module's rule or by a tolerance.

        The file's tolerance adds permission: elements within it pass as well, and finite ones need
        not all pass where it says so (`Tolerance.matched`). Its `atol` grows with the outputs on
        inputs other than the file's own, and is capped at a quarter of their root mean square, or
        zeros would pass for small outputs (`solkit.core.rounding.with_usable_atol`).
        Without one, only the rule decides; without a usable wide reference, each dtype's default
        tolerance decides, its `atol` in units of the root mean square.

        Infinities must be the reference's, or the exact output beyond what the dtype holds. NaN
        passes only where the reference has it. Integers and bools must equal the reference, the
        exact output, or, if rounding breaks a tie, the output of nearby inputs. So do floating
        elements by which a tie decides.

        Args:
            got: the candidate's outputs; order, shape, dtype and count must be the reference's.
        """
        return self._compared(got, draws=True)

    def _compared(self, got: Sequence[torch.Tensor], draws: bool) -> Comparison:
        """Compare outputs; `draws` tells whether further nearby inputs are drawn for ties."""
        errors: list[str] = []
        max_error = 0.0
        chosen = functools.cache(lambda: self._chosen_outputs(got))
        if len(got) != len(self._want):
            errors.append(f"{len(got)} output(s); the reference has {len(self._want)}")
        for index, (mine, theirs) in enumerate(zip(got, self._want, strict=False)):
            where = f"output {index}"
            differences = _form_differences(mine, theirs)
            errors += [f"{where}: {difference}" for difference in differences]
            if not differences and _are_identical(mine, theirs):
                continue
            if _comparable(mine, theirs):
                rule = self._output_rule(index)
                tally = _tally_mismatches(mine, theirs, rule)
                if draws and not tally.is_within(theirs, rule):
                    rule, tally = self._near_ties(index, mine, rule, tally, chosen())
                max_error = max(max_error, tally.max_error)
                if not tally.is_within(theirs, rule):
                    admitted = _admitting_tolerance(mine, theirs, rule, tally.worst)
                    errors.append(f"{where}: {tally.describe(theirs, rule)}{admitted}")
        return Comparison(max_error, tuple(errors))

    def _chosen_outputs(self, got: Sequence[torch.Tensor]) -> list[Sequence[torch.Tensor]]:
        """Return the reference's outputs with the right choices of each output of integers."""
        runs: list[Sequence[torch.Tensor]] = []
        if (choose := self._as_chosen) is None:
            return runs
        for places in got:
            if not is_inexact(places) and places.dtype is not torch.bool:
                with contextlib.suppress(Exception):  # user code that refuses these excuses none
                    runs.append(choose(places))
        return runs

    def _near_ties(
        self,
        index: int,
        got: torch.Tensor,
        rule: _Rule,
        tally: _Tally,
        chosen: Sequence[Sequence[torch.Tensor]],
    ) -> tuple[_Rule, _Tally]:
        """Return rule and tally with the elements excused that are right for near values.

        These are the outputs of `chosen` runs, and of nearby inputs.
        """
        want = self._want[index]
        mine = _flat_parts(got)
        excused = torch.zeros(mine.shape, dtype=torch.bool, device=mine.device)
        near_rule, near_tally = replace(rule, excused=excused), tally
        for outputs in chosen:
            if outputs[index].shape == want.shape:
                _excuse(excused, mine, _flat_parts(outputs[index]), rule)
                near_tally = _tally_mismatches(got, want, near_rule)
        first = near_tally.mismatched
        many = first > max(_FEW_BROKEN, _MOST_BROKEN * want.numel())
        if self._nearby is None or many or near_tally.is_within(want, near_rule):
            return near_rule, near_tally
        begun_s = time.monotonic()
        for draw in range(_MOST_DRAWS):
            try:
                output = self._nearby(draw)[index]
            except Exception:  # user code on tensors that it was not written for
                break
            if output.shape != want.shape:
                break
            _excuse(excused, mine, _flat_parts(output), rule)
            near_tally = _tally_mismatches(got, want, near_rule)
            is_hopeless = near_tally.mismatched > max(_FEW_BROKEN, (1 - _LEAST_FOUND) * first)
            is_over = time.monotonic() - begun_s > _DRAWING_S
            is_over |= draw + 1 >= _FIRST_DRAWS and is_hopeless
            if is_over or near_tally.is_within(want, near_rule):
                break
        return near_rule, near_tally

    def _output_rule(self, index: int) -> _Rule:
        if index not in self._rules:
            exact = None if self._exact is None else self._exact[index]
            want = self._want[index]
            usual = None if self._usual_levels is None else self._usual_levels[index]
            rule = _make_rule(want, self._tolerance, exact, usual)
            if rule.exact is not None:
                rule = replace(rule, computing=max(rule.computing, self._least))
            self._rules[index] = _with_noise(rule, want, exact, self._scale)
        return self._rules[index]


@dataclass(frozen=True)
class _Rule:
    """Distance that one output may have from the correct one, over its flattened elements."""

    permitted: Tolerance  # ``|got - want| <= atol + rtol * |want|`` passes
    storing: float = 0.0  # of this module's rule
    computing: float = 0.0
    underflow: float = 0.0
    exact: torch.Tensor | None = None  # y and sigma; ``None`` if only `permitted` decides
    sensitivity: torch.Tensor | None = None
    others: tuple[torch.Tensor, ...] = ()  # further outputs that pass, of integers and bools
    noise: float = 0.0  # the largest size of pure rounding
    cancelled: torch.Tensor | None = None  # whether the reference's value is pure rounding
    excused: torch.Tensor | None = None  # whether an element is right for nearby inputs

    def for_elements(self, part: slice) -> _Rule:
        """Return the rule for some elements."""
        return replace(
            self,
            exact=None if self.exact is None else self.exact[part],
            sensitivity=None if self.sensitivity is None else self.sensitivity[part],
            others=tuple(other[part] for other in self.others),
            cancelled=None if self.cancelled is None else self.cancelled[part],
            excused=None if self.excused is None else self.excused[part],
        )

    def for_tail(self) -> _Rule:
        """Return the rule for the few elements whose sensitivity is small by chance."""
        return replace(self, storing=_TAIL * self.storing, computing=_TAIL * self.computing)

    def describe(self) -> str:
        """Say how an element breaks the rule."""
        parts = []
        if self.exact is not None:
            parts.append(f"what rounding explains ({self.storing + self.computing:.2g} relative)")
        if self.permitted != _EXACT:
            share = f" ({100 * (1 - self.permitted.matched):.3g} % may)"
            parts.append(
                f"{self.permitted.atol:.4g} + {self.permitted.rtol:.4g}*|want|"
                + (share if self.permitted.matched < 1 else "")
            )
        return f"differ by over {' and over '.join(parts)}" if parts else "differ"


def _make_rule(
    want: torch.Tensor,
    tolerance: Tolerance | None,
    exact: Exact | None,
    usual_level: float | None = None,
) -> _Rule:
    if not is_inexact(want):
        same = exact is not None and exact.value.shape == want.shape
        others = (exact.value, *exact.others) if exact is not None and same else ()
        return _Rule(_EXACT, others=tuple(_flat_parts(other) for other in others))
    level = root_mean_square(want)
    permitted = _EXACT if tolerance is None else with_usable_atol(tolerance, level, usual_level)
    if exact is not None and (share := _observed_share(want, exact)) <= _LARGEST_SHARE:
        return _Rule(
            permitted,
            storing=2 * _unit_roundoff(want.dtype),
            computing=max(share, computing_share(_unit_roundoff(want.dtype), tolerance)),
            underflow=_underflow_error(want.dtype),
            exact=_flat_parts(exact.value),
            sensitivity=_per_real_part(exact.sensitivity, want),
        )
    if tolerance is None:
        default = default_tolerance(want.dtype)
        permitted = Tolerance(default.rtol, default.atol * (level or 1.0))
    return _Rule(permitted)


def _with_noise(rule: _Rule, want: torch.Tensor, exact: Exact | None, scale: float) -> _Rule:
    """Return the rule with the elements that are pure rounding in the reference, if any."""
    if exact is None or not is_inexact(want) or exact.value.shape != want.shape:
        return rule
    if torch.finfo(exact.value.dtype).eps >= torch.finfo(want.dtype).eps:
        return rule
    noise = _NOISE * _unit_roundoff(want.dtype) * max(1.0, scale)
    theirs, true = _flat_parts(want), _flat_parts(exact.value)
    cancelled = torch.zeros(theirs.shape, dtype=torch.bool, device=theirs.device)
    for part in _chunk_slices(theirs):
        size = theirs[part].double().abs()
        cancelled[part] = (size <= noise) & (true[part].double().abs() <= _CANCELLED * size)
    return replace(rule, noise=noise, cancelled=cancelled) if bool(cancelled.any()) else rule


def _observed_share(want: torch.Tensor, exact: Exact) -> float:
    """Return the share c; infinite if the exact output is unusable."""
    if not default_tolerance(want.dtype).rtol or exact.value.shape != want.shape:
        return math.inf
    if torch.finfo(exact.value.dtype).eps >= torch.finfo(want.dtype).eps:
        return math.inf  # no wider than the reference itself
    u = _unit_roundoff(want.dtype)
    stride = max(1, want.numel() // _SAMPLED)
    pairs = [(want, exact.value), *exact.nearby]
    theirs, true = (
        torch.cat([_flat_parts(part)[::stride].double() for part in parts])
        for parts in zip(*pairs, strict=True)
    )
    sensitivity = _per_real_part(exact.sensitivity, want)[::stride].double().repeat(len(pairs))
    finite = theirs.isfinite() & true.isfinite()
    excess = (theirs - true).abs() - u * true.abs() - _underflow_error(want.dtype)
    shares = (excess.clamp(min=0) / (true.abs() + sensitivity))[finite & (excess > 0)]
    rank = int(finite.sum()) - math.ceil(_PERCENTILE * int(finite.sum()))  # from the largest
    largest = float(shares.topk(rank + 1).values[-1]) if len(shares) > rank else 0.0
    return max(computing_share(u, None), MARGIN * largest)


def _unit_roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def _underflow_error(dtype: torch.dtype) -> float:
    """Error allowed below the normal numbers: all of it in fp32 and bf16, which GPUs flush."""
    limits = torch.finfo(dtype)
    return limits.tiny if limits.bits >= 32 or dtype is torch.bfloat16 else limits.tiny * limits.eps


def _per_real_part(sensitivity: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Flattened; each element twice if the output is complex and its parts are compared."""
    flat = sensitivity.reshape(-1)
    return flat.repeat_interleave(2) if want.is_complex() else flat


def root_mean_square(want: torch.Tensor) -> float:
    """Return the root mean square of the finite elements; 0 if there are none."""
    flat = _flat_parts(want)
    total, count = 0.0, 0
    for part in _chunk_slices(flat):
        values = flat[part].double()
        finite = values.isfinite()
        total += float(values.masked_fill(~finite, 0.0).square().sum())
        count += int(finite.sum())
    return math.sqrt(total / count) if total else 0.0


def _comparable(got: torch.Tensor, want: torch.Tensor) -> bool:
    return (
        got.shape == want.shape
        and got.device == want.device
        and got.dtype.is_complex == want.dtype.is_complex
    )


def _are_identical(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Tell whether outputs are identical: a quick test that correct candidates often pass."""
    if not got.layout is want.layout is torch.strided:
        return False
    pair = _flat_parts(got), _flat_parts(want)
    return all(torch.equal(*(values[part] for values in pair)) for part in _chunk_slices(pair[1]))


def _form_differences(got: torch.Tensor, want: torch.Tensor) -> list[str]:
    facts = [
        ("shape", tuple(got.shape), tuple(want.shape)),
        ("dtype", got.dtype, want.dtype),
        ("device", got.device, want.device),
    ]
    return [f"{what} {g} where the reference has {w}" for what, g, w in facts if g != w]


@dataclass
class _Tally:
    """Mismatches of one output, counted over its chunks; `worst` is a flat index."""

    mismatched: int = 0
    beyond: int = 0  # of these, by more than a sensitivity that is small by chance explains
    nonfinite: int = 0
    stray_nan: int = 0
    max_error: float = 0.0
    worst: int = 0
    worst_error: float = -1.0
    worst_got: float = 0.0
    worst_want: float = 0.0

    def is_within(self, want: torch.Tensor, rule: _Rule) -> bool:
        """Tell whether enough elements agree, and all infinite ones and NaN."""
        wrong = _wrong_elements(self.mismatched, self.beyond, want.numel())
        share = wrong / max(want.numel(), 1)
        return not self.nonfinite and share <= 1 - rule.permitted.matched

    def describe(self, want: torch.Tensor, rule: _Rule) -> str:
        share = 100 * self.mismatched / want.numel()
        place = [int(i) for i in torch.unravel_index(torch.tensor(self.worst), want.shape)]
        nan = f", {self.stray_nan} of them NaN where the reference is not" if self.stray_nan else ""
        return (
            f"{self.mismatched} of {want.numel()} elements ({share:.3g} %) {rule.describe()}{nan}; "
            f"the worst at {place}: got {self.worst_got:.6g}, expected {self.worst_want:.6g}; "
            f"largest error {self.max_error:.4g}"
        )


def _admitting_tolerance(got: torch.Tensor, want: torch.Tensor, rule: _Rule, worst: int) -> str:
    """Say which tolerance admits fp32 outputs whose errors are as those of coarser factors.

    Empty if none does. The worst element is asked first: of a wrong kernel, it alone.
    """
    if want.dtype is not torch.float32 or rule.exact is None:
        return ""
    mine, theirs, place = _flat_parts(got), _flat_parts(want), slice(worst, worst + 1)
    for dtype, rtol in reversed(ADMITTED_OPERANDS.items()):
        if rule.permitted.rtol >= rtol:
            continue
        tolerance = replace(rule.permitted, rtol=rtol)
        share = computing_share(_unit_roundoff(want.dtype), tolerance)
        wider = replace(rule, permitted=tolerance, computing=max(rule.computing, share))
        first = _tally_mismatches(mine[place], theirs[place], wider.for_elements(place))
        if not first.mismatched and _tally_mismatches(got, want, wider).is_within(want, wider):
            return f"; {name_admitting(dtype, rtol)}"
    return ""


def _tally_mismatches(got: torch.Tensor, want: torch.Tensor, rule: _Rule) -> _Tally:
    mine, theirs = _flat_parts(got), _flat_parts(want)
    per_element = theirs.numel() // max(want.numel(), 1)  # 2 where complex
    tally = _Tally()
    for part in _chunk_slices(theirs):
        _add_chunk(tally, mine[part], theirs[part], rule.for_elements(part), part.start)
    tally.worst //= max(per_element, 1)
    tally.mismatched = min(tally.mismatched, want.numel())
    tally.beyond = min(tally.beyond, tally.mismatched)
    return tally


def _add_chunk(
    tally: _Tally, got: torch.Tensor, want: torch.Tensor, rule: _Rule, start: int
) -> None:
    wide_got, wide_want = _widen_chunk(got, rule), _widen_chunk(want, rule)
    # dtypes without `==` are compared by value
    inexact = is_inexact(got) or is_inexact(want) or got.dtype != want.dtype
    same = (wide_got == wide_want) if inexact else (got == want)
    nan_got, nan_want = wide_got.isnan(), wide_want.isnan()
    agree = same | (nan_got & nan_want)
    for other in rule.others:
        agree = agree | (got == other)
    error = (wide_got - wide_want).abs().masked_fill(agree, 0.0)
    if is_inexact(want):
        # an infinite `want` permits anything: those were compared before
        permitted = rule.permitted.atol + rule.permitted.rtol * wide_want.abs()
        agree = agree | ((error <= permitted) & wide_want.isfinite())
    largest = torch.finfo(want.dtype).max if rule.exact is not None else math.inf
    if rule.exact is not None:
        agree = agree | _explained_elements(wide_got, wide_want, rule, largest)
    if rule.cancelled is not None:
        agree = agree | rule.cancelled & (wide_got.abs() <= rule.noise)
    if rule.excused is not None:
        agree = agree | rule.excused
    finite = error.masked_fill(~error.isfinite(), 0.0)
    tally.max_error = max(tally.max_error, float(finite.max()))
    mismatched = int((~agree).sum())
    if not mismatched:
        return
    tally.mismatched += mismatched
    tally.beyond += mismatched
    if rule.exact is not None:
        explained = _explained_elements(wide_got, wide_want, rule.for_tail(), largest)
        tally.beyond -= int((~agree & explained).sum())
    tally.nonfinite += int((~agree & ~(wide_got.isfinite() & wide_want.isfinite())).sum())
    tally.stray_nan += int((nan_got & ~nan_want).sum())
    ranked = error.nan_to_num(nan=math.inf).masked_fill(agree, -1.0)
    place = int(ranked.argmax())
    if float(ranked[place]) > tally.worst_error:
        tally.worst, tally.worst_error = start + place, float(ranked[place])
        tally.worst_got, tally.worst_want = float(wide_got[place]), float(wide_want[place])


def _excuse(excused: torch.Tensor, got: torch.Tensor, near: torch.Tensor, rule: _Rule) -> None:
    """Mark elements that follow the rule around the output of nearby inputs, both flattened."""
    for part in _chunk_slices(got):
        mine, true = got[part], near[part]
        if not is_inexact(mine):
            excused[part] |= mine == true
        elif rule.exact is not None:
            here = replace(rule.for_elements(part), exact=true)
            wide = mine.double()
            largest = torch.finfo(mine.dtype).max
            excused[part] |= _explained_elements(wide, true.double(), here, largest)


def _explained_elements(
    got: torch.Tensor, want: torch.Tensor, rule: _Rule, largest: float
) -> torch.Tensor:
    """Return where this module's rule holds; `largest` is the dtype's largest number."""
    assert rule.exact is not None
    assert rule.sensitivity is not None
    exact = rule.exact.double()
    lost = want.isfinite() & ~exact.isfinite()  # it differs from its wide version: not usable
    true = torch.where(lost, want, exact)
    moves = rule.sensitivity.masked_fill(lost, 0.0)
    size = true.abs()
    allowed = rule.storing * size + rule.computing * (size + moves) + rule.underflow
    overflow = got.isinf() & (got.signbit() == true.signbit()) & (size + allowed >= largest)
    return ((got - true).abs() <= allowed) & true.isfinite() | overflow & ~true.isnan()


def _chunk_slices(flat: torch.Tensor) -> Iterator[slice]:
    for start in range(0, flat.numel(), _CHUNK):
        yield slice(start, start + _CHUNK)


def _flat_parts(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype is torch.float4_e2m1fn_x2:
        plain = plain.contiguous().view(torch.uint8)  # two values a byte; compared as bits
    return plain.reshape(-1)


def _widen_chunk(tensor: torch.Tensor, rule: _Rule) -> torch.Tensor:
    narrow = tensor.dtype.is_floating_point and tensor.dtype is not torch.float64
    narrow = narrow and rule.exact is None
    return tensor.to(torch.float32 if narrow else torch.float64)
