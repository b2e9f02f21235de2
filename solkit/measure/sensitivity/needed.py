"""Traffic and products that the inputs make compulsory: see `solkit.measure.sensitivity`."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from solkit.core import Needed, NeededProducts, Tolerance
from solkit.measure.sensitivity.changes import Change, Changes
from solkit.measure.sensitivity.confidence import lower_bound
from solkit.measure.sensitivity.outputs import OutputChange, Outputs, changed
from solkit.measure.sensitivity.products import Contraction, contractions_of
from solkit.measure.sensitivity.relations import relations_of
from solkit.measure.sensitivity.sectors import Region, regions_of

__all__ = ["LIMIT_S", "RISK", "SAMPLES", "needed"]

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


def needed(
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
    regions = _that_matter(regions_of(inputs))
    for_draws = time.monotonic() + _FOR_DRAWS * limit_s
    relations = relations_of(regions, draw, lambda: time.monotonic() < min(for_draws, deadline))
    if relations is None:
        return None
    generator = torch.Generator()
    generator.manual_seed(random.Random(seed).getrandbits(63))
    changes = Changes(regions, relations, generator, samples)
    tallies = _sampled(subject, changes, len(regions), deadline)
    split = RISK / max(1, len(regions))
    shares = {region.number: tally.share for region, tally in zip(regions, tallies, strict=True)}
    return Needed(
        read_bytes=sum(
            int(lower_bound(tally.hits, tally.trials, split) * region.bytes)
            for region, tally in zip(regions, tallies, strict=True)
        ),
        write_bytes=subject.write_bytes,
        products=tuple(_products(contraction, shares) for contraction in counted),
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


def _that_matter(regions: Sequence[Region]) -> list[Region]:
    total = sum(region.bytes for region in regions)
    return [region for region in regions if region.bytes >= _MATTERS * total]


def _sampled(
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
            tally.zeros += changes.is_zero(at, element)
            weight, tried = changes.of(at, element)
            drawn = changes.chance() < weight
            tally.hits += drawn and subject.depends(tried)
            tally.trials += 1
    return tallies


def _products(contraction: Contraction, shares: dict[int, float]) -> NeededProducts:
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
        self._written = [(r, old) for r, old in pairs if not _same(old, r.flat)]
        returned = {_place(tensor) for tensor in want}
        in_place = [(r, old) for r, old in pairs if _place(r.flat) in returned]
        self._standing = {r.flat.data_ptr(): (old, r.flat.clone()) for r, old in in_place}
        self.write_bytes = _own_bytes(want, {_place(tensor) for tensor in inputs}) + sum(
            changed(r.values(old), r.values(), tolerance) * old.element_size()
            for r, old in in_place
        )
        self._restore()
        self._repeats = not self._want.moved(run()).in_bits
        self._restore()

    def contractions(self) -> tuple[Contraction, ...]:
        """See `contractions_of`."""
        contractions = contractions_of(self._run, self._inputs)
        self._restore()
        return contractions

    def depends(self, changes: Iterable[Change]) -> bool:
        """Tell whether some change moves the outputs by more than a correct kernel may be off.

        Changes beyond the range of the draws count only where one within it moves any bit: a clamp
        to a range that no input leaves needs no input.
        """
        moved_in_bits = False
        for change in changes:
            if not change.is_within and not (moved_in_bits and self._repeats):
                return False
            moved = self._moved(change)
            if moved.is_undefined or (moved.is_infinite and not change.is_within):
                if change.is_within:
                    continue
                return False  # the larger ones overflow too
            if moved.by_more:
                return True
            moved_in_bits |= moved.in_bits
        return False

    def _moved(self, change: Change) -> OutputChange:
        undo = change.apply()
        try:
            got = self._run()
            for write in change.writes:
                self._forgive(*write)
            moved = self._want.moved(got)
            if moved.by_more and self._accepts is not None and self._accepts(got):
                return replace(moved, by_more=False)
            return moved
        except Exception:  # user code on inputs that it was not written for
            return OutputChange(is_undefined=True)
        finally:
            undo.apply()
            self._restore()

    def _forgive(self, flat: torch.Tensor, places: torch.Tensor, values: torch.Tensor) -> None:
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

    def _restore(self) -> None:
        for region, old in self._written:
            region.flat.copy_(old)


def _own_bytes(outputs: Sequence[torch.Tensor], held: set[int]) -> int:
    """Count bytes of outputs that do not lie in inputs, shared memory once."""
    own: dict[int, int] = {}
    for tensor in outputs:
        if _place(tensor) not in held:
            size = _distinct(tensor) * tensor.element_size()
            most = tensor.untyped_storage().nbytes()
            own[_place(tensor)] = min(own.get(_place(tensor), 0) + size, most)
    return sum(own.values())


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _distinct(tensor: torch.Tensor) -> int:
    """Count elements, those of an expanded dimension once."""
    return math.prod(n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step)


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors have the same bits, NaN included."""
    a, b = (
        tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second)
    )
    return torch.equal(a, b)
