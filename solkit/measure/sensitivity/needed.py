"""Traffic and products that the inputs make compulsory: see `solkit.measure.sensitivity`."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace

import torch

from solkit.core import Needed, NeededProducts, Tolerance, default_tolerance
from solkit.measure.sensitivity.changes import Change, Changes
from solkit.measure.sensitivity.products import Contraction, contractions_of, storage_address
from solkit.measure.sensitivity.relations import relations_of
from solkit.measure.sensitivity.sectors import regions_of

LIMIT_S = 10.0
"""Seconds that measuring may take; fewer samples give a lower bound."""
SAMPLES = 256
"""Sectors of a tensor: where all count, the bound is 0.94 of its bytes."""
RISK = 1e-6
"""The probability that the true need of a problem is below what is measured."""

_FOR_DRAWS = 0.3  # of the time
_MATTERS = 1e-3  # of all bytes: smaller tensors are left out

Run = Callable[[], list[torch.Tensor]]
Draw = Callable[[int], Sequence[torch.Tensor]]


def measure_needed(
    run: Run,
    inputs: Sequence[torch.Tensor],
    draw: Draw,
    *,
    tolerance: Tolerance | None = None,
    accepts: Callable[[list[torch.Tensor]], bool] | None = None,
    limit_s: float = LIMIT_S,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Needed | None:
    """Measure what any correct kernel must read, write and multiply on these inputs.

    The inputs are changed in place and hold their values again afterwards.

    Args:
        run: the reference on `inputs` as they are now, with any random numbers seeded; its outputs,
            inputs that it writes among them.
        inputs: the tensors that it is called with.
        draw: the inputs of another draw, from its number: as many tensors of the same shapes.
        tolerance: how far floating outputs may be off; that of their dtype where ``None``.
        accepts: the file's own comparison of outputs with those on the inputs as they are; what it
            accepts has not changed.
        limit_s: seconds that this may take.
        samples: sectors of each tensor.
        seed: of what is sampled.

    Returns:
        The need; ``None`` if there was no time for the draws that show which relations hold.
    """
    subject = _Subject(run, inputs, tolerance, accepts)
    counted = subject.contractions()  # the first time torch imports much for it
    deadline = time.monotonic() + limit_s
    regions = regions_of(inputs)
    least_bytes = _MATTERS * sum(region.bytes for region in regions)
    regions = [region for region in regions if region.bytes >= least_bytes]
    for_draws = time.monotonic() + _FOR_DRAWS * limit_s
    relations = relations_of(regions, draw, lambda: time.monotonic() < min(for_draws, deadline))
    if relations is None:
        return None
    generator = torch.Generator()
    generator.manual_seed(random.Random(seed).getrandbits(63))
    changes = Changes(regions, relations, generator, samples)
    tallies = _sample_sectors(subject, changes, len(regions), deadline)
    split = RISK / max(1, len(regions))
    shares = {region.number: tally.share for region, tally in zip(regions, tallies, strict=True)}
    return Needed(
        read_bytes=sum(
            int(lower_bound(tally.hits, tally.trials, split) * region.bytes)
            for region, tally in zip(regions, tallies, strict=True)
        ),
        write_bytes=subject.write_bytes,
        products=tuple(_needed_products(contraction, shares) for contraction in counted),
        samples=sum(tally.trials for tally in tallies),
    )


@dataclass
class _Tally:
    """Counts of the sampled sectors that must be read, and of those that hold only zeros."""

    hits: int = 0
    trials: int = 0
    zeros: int = 0

    @property
    def share(self) -> float:
        """The share that must be read, of the sectors that hold anything."""
        return self.hits / (self.trials - self.zeros) if self.hits else 0.0


def _sample_sectors(
    subject: _Subject,
    changes: Changes,
    regions: int,
    deadline: float,
) -> list[_Tally]:
    """Sample the regions in turns, until there are enough samples or the time is over."""
    tallies = [_Tally() for _ in range(regions)]
    for turn in zip(*changes.elements):
        for at, (element, tally) in enumerate(zip(turn, tallies, strict=True)):
            if time.monotonic() > deadline:
                return tallies
            tally.zeros += changes.is_all_zero(at, element)
            weight, tried = changes.changes_for(at, element)
            drawn = changes.draw_chance() < weight
            tally.hits += drawn and subject.depends_on_any(tried)
            tally.trials += 1
    return tallies


def _needed_products(contraction: Contraction, shares: dict[int, float]) -> NeededProducts:
    """Return a contraction with the products that sectors which must be read take part in."""
    parts = [
        min((shares.get(n, 1.0) for n in feeding), default=1.0) for feeding in contraction.feeding
    ]
    share = max(0.0, sum(parts) - (len(parts) - 1))
    return NeededProducts(contraction.flops, int(contraction.nonzero * share))


class _Subject:
    """A reference on inputs that are changed in place, and undone after each run.

    Attributes:
        write_bytes: of the outputs, that differ from what stood there.
    """

    def __init__(
        self,
        run: Run,
        inputs: Sequence[torch.Tensor],
        tolerance: Tolerance | None,
        accepts: Callable[[list[torch.Tensor]], bool] | None,
    ) -> None:
        self._run, self._inputs, self._accepts = run, inputs, accepts
        regions = regions_of(inputs)
        before = [region.flat.clone() for region in regions]
        want = run()
        self._want = Outputs(want, tolerance)
        pairs = list(zip(regions, before, strict=True))
        self._written = [(r, old) for r, old in pairs if not _have_same_bits(old, r.flat)]
        returned = {storage_address(tensor) for tensor in want}
        in_place = [(r, old) for r, old in pairs if storage_address(r.flat) in returned]
        self._standing = {r.flat.data_ptr(): (old, r.flat.clone()) for r, old in in_place}
        self.write_bytes = _new_output_bytes(
            want, {storage_address(tensor) for tensor in inputs}
        ) + sum(
            count_changed(r.values(old), r.values(), tolerance) * old.element_size()
            for r, old in in_place
        )
        self._restore_inputs()
        self._repeats = not self._want.compare_outputs(run()).in_bits
        self._restore_inputs()

    def contractions(self) -> tuple[Contraction, ...]:
        """See `contractions_of`."""
        contractions = contractions_of(self._run, self._inputs)
        self._restore_inputs()
        return contractions

    def depends_on_any(self, changes: Iterable[Change]) -> bool:
        """Tell whether some change moves the outputs by more than a correct kernel may be off.

        Changes beyond the range of the draws count only where one within it moves any bit: a clamp
        to a range that no input leaves needs no input.
        """
        moved_in_bits = False
        for change in changes:
            if not change.is_within and not (moved_in_bits and self._repeats):
                return False
            moved = self._compare_changed(change)
            if moved.is_undefined or (moved.is_infinite and not change.is_within):
                if change.is_within:
                    continue
                return False  # the larger ones overflow too
            if moved.by_more:
                return True
            moved_in_bits |= moved.in_bits
        return False

    def _compare_changed(self, change: Change) -> OutputChange:
        undo = change.apply()
        try:
            got = self._run()
            for write in change.writes:
                self._allow_standing(*write)
            moved = self._want.compare_outputs(got)
            if moved.by_more and self._accepts is not None and self._accepts(got):
                return replace(moved, by_more=False)
            return moved
        except Exception:  # user code on inputs that it was not written for
            return OutputChange(is_undefined=True)
        finally:
            undo.apply()
            self._restore_inputs()

    def _allow_standing(
        self, flat: torch.Tensor, places: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Let an output that lies in an input hold the changed value where nothing is written.

        A kernel that leaves the old value need not read it.
        """
        standing = self._standing.get(flat.data_ptr())
        if standing is None:
            return
        old, want = (values[places] for values in standing)
        now = flat[places]
        stays = (now == values) & (old == want)
        flat[places] = torch.where(stays, want, now)

    def _restore_inputs(self) -> None:
        for region, old in self._written:
            region.flat.copy_(old)


def _new_output_bytes(outputs: Sequence[torch.Tensor], held: set[int]) -> int:
    """Count bytes of outputs that do not lie in inputs, shared memory once."""
    own: dict[int, int] = {}
    for tensor in outputs:
        if storage_address(tensor) not in held:
            size = _distinct_count(tensor) * tensor.element_size()
            most = tensor.untyped_storage().nbytes()
            own[storage_address(tensor)] = min(own.get(storage_address(tensor), 0) + size, most)
    return sum(own.values())


def _distinct_count(tensor: torch.Tensor) -> int:
    """Count elements, those of an expanded dimension once."""
    return math.prod(n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step)


def _have_same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors have the same bits, NaN included."""
    a, b = (
        tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second)
    )
    return torch.equal(a, b)


# -------------------------------------------------------------- Lower confidence bounds of a share


_STEPS = 60  # of the bisection: 2^-60 is below what a float tells from 0


def lower_bound(hits: int, trials: int, risk: float) -> float:
    """Return the Clopper-Pearson lower bound of a share.

    The p at which `hits` or more of `trials` independent trials succeed with probability `risk`
    (Clopper and Pearson, Biometrika 26(4), 1934).

    Args:
        hits: how many trials succeeded.
        trials: how many there were.
        risk: the probability that the true share is below the bound.
    """
    if hits == 0:
        return 0.0
    low, high = 0.0, hits / trials
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _binomial_tail(hits, trials, middle) < risk:
            low = middle
        else:
            high = middle
    return low


def _binomial_tail(hits: int, trials: int, share: float) -> float:
    """Return the probability of so many hits or more."""
    if share <= 0.0:
        return 0.0
    if share >= 1.0:
        return 1.0
    return sum(
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(n + 1)
            - math.lgamma(trials - n + 1)
            + n * math.log(share)
            + (trials - n) * math.log1p(-share)
        )
        for n in range(hits, trials + 1)
    )


# ---------------------------- Changes of outputs: in any bit, or by more than a tolerance explains


_CHUNK = 1 << 24
_MARGIN = 4.0
"""Times the tolerance: a kernel may be off by it on either inputs, and by what rounding explains
(`solkit.measure.checking.tolerance`)."""


@dataclass(frozen=True)
class OutputChange:
    """Difference of outputs from those on the inputs at hand.

    Attributes:
        in_bits: any bit differs.
        by_more: some element differs by more than any correct kernel may be off.
        is_infinite: some element is infinite that was not.
        is_undefined: some element is NaN that was not, or there are no outputs.
    """

    in_bits: bool = False
    by_more: bool = False
    is_infinite: bool = False
    is_undefined: bool = False

    def __or__(self, other: OutputChange) -> OutputChange:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return OutputChange(*(one or another for one, another in pairs))


class Outputs:
    """The outputs on the inputs at hand, to compare others with.

    Args:
        want: the outputs.
        tolerance: the file's own, for floating outputs.
    """

    def __init__(self, want: Sequence[torch.Tensor], tolerance: Tolerance | None) -> None:
        self._want = [_flat_numbers(tensor).clone() for tensor in want]
        self._allowed = [_allowed_difference(tensor, tolerance) for tensor in self._want]

    def compare_outputs(self, got: Sequence[torch.Tensor]) -> OutputChange:
        """Compare outputs; those of another shape differ by more."""
        if len(got) != len(self._want):
            return OutputChange(True, True)
        change = OutputChange()
        for mine, want, allowed in zip(got, self._want, self._allowed, strict=True):
            flat = _flat_numbers(mine)
            if flat.shape != want.shape or flat.dtype != want.dtype:
                return OutputChange(True, True)
            if torch.equal(flat, want):
                continue
            change |= _compare_flat(flat, want, allowed)
        return change


def count_changed(before: torch.Tensor, after: torch.Tensor, tolerance: Tolerance | None) -> int:
    """Count the elements that differ from what stood there by more than a kernel may be off."""
    old, now = _flat_numbers(before), _flat_numbers(after)
    limits = _allowed_difference(now, tolerance)
    if limits is None:
        return int((old != now).sum())
    a, b = old.double(), now.double()
    near = (a - b).abs() <= limits.atol + limits.rtol * torch.maximum(a.abs(), b.abs())
    return int((~near & ((a == a) | (b == b)) & (a != b)).sum())


def _flat_numbers(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    plain = plain if plain.layout is torch.strided else plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype is torch.float4_e2m1fn_x2:
        plain = plain.contiguous().view(torch.uint8)
    elif plain.is_floating_point() and plain.element_size() == 1:
        plain = plain.float()  # fp8 has no arithmetic
    return plain.reshape(-1)


def _allowed_difference(want: torch.Tensor, tolerance: Tolerance | None) -> Tolerance | None:
    """Return the largest difference of two outputs that are both right; ``None``: integers."""
    if not want.is_floating_point():
        return None
    default = default_tolerance(want.dtype)
    finite = want[want.isfinite()].double()
    level = math.sqrt(float(finite.square().mean())) if finite.numel() else 0.0
    own = tolerance or Tolerance(default.rtol, default.atol * (level or 1.0))
    least = Tolerance(max(own.rtol, default.rtol), max(own.atol, default.atol * level))
    return Tolerance(min(_MARGIN * least.rtol, 0.5), _MARGIN * least.atol)


def _compare_flat(got: torch.Tensor, want: torch.Tensor, allowed: Tolerance | None) -> OutputChange:
    if allowed is None:
        return OutputChange(True, True)
    change = OutputChange()
    wide = torch.float64 if want.dtype is torch.float64 else torch.float32
    for start in range(0, want.numel(), _CHUNK):
        a, b = (values[start : start + _CHUNK].to(wide) for values in (got, want))
        limit = allowed.atol + allowed.rtol * torch.maximum(a.abs(), b.abs())
        both = a.isfinite() & b.isfinite()
        change |= OutputChange(
            in_bits=bool((a != b).any()),
            by_more=bool(((both & ((a - b).abs() > limit)) | (a.isinf() != b.isinf())).any()),
            is_infinite=bool((a.isinf() & b.isfinite()).any()),
            is_undefined=bool((a.isnan() & ~b.isnan()).any()),
        )
    return change
