"""The archive: good variants that differ, and which of them to build on.

It keeps the best of each behaviour (MAP-Elites: Mouret and Clune, "Illuminating Search Spaces by
Mapping Elites", 2015). Behaviour is what analysis says of a kernel, so it costs no GPU time: how
many launches it makes, what limits the longest, whether its grid fills the GPU once or many times,
whether it stages data in shared memory, and how much a program computes.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from solkit.core import Analysis, Bred, Device, KernelAnalysis, Variant, Verdict
from solkit.errors import InputError

_HEAT = 0.25
"""A parent whose gap is 2 ** 0.25 = 1.19 times the best one's is chosen 1/e as often."""
_CHILD = 0.5
"""So much less often for each round that a parent was chosen already."""
_NEAR = 1.03
"""A variant within this of the fastest of its behaviour may be built on as well: what it changed
may gain nothing alone and open the next rewrite."""
_FEW_BLOCKS = 4  # a grid of at most so many blocks an SM walks over its work


class Archive:
    """All variants of a search.

    Args:
        original: what the search starts from.
        seed: of what is drawn.
    """

    def __init__(self, original: Variant, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._bred: dict[str, Bred] = {original.id: Bred(original)}
        self._rounds: Counter[str] = Counter()
        self._dry: set[str] = set()
        self.original = original.id

    def __contains__(self, name: str) -> bool:
        return name in self._bred

    def __iter__(self) -> Iterator[Bred]:
        """Yield variants, oldest first."""
        return iter(self._bred.values())

    def __len__(self) -> int:
        return len(self._bred)

    def __getitem__(self, name: str) -> Bred:
        return self._bred[name]

    def add(self, variant: Variant) -> None:
        """Add a new variant.

        Raises:
            InputError: its parent is unknown.
        """
        if variant.parent is not None and variant.parent not in self._bred:
            raise InputError(f"variant {variant.id} has an unknown parent: {variant.parent}")
        self._bred.setdefault(variant.id, Bred(variant))

    def note(self, name: str, **changes: object) -> Bred:
        """Change what is known of a variant: fields of `Bred`."""
        self._bred[name] = replace(self._bred[name], **changes)  # type: ignore[arg-type]
        return self._bred[name]

    @property
    def best(self) -> Bred:
        """The fastest; the original before anything was timed."""
        timed = [bred for bred in self if bred.time_ms is not None]
        return min(timed, key=_timed_ms, default=self._bred[self.original])

    def behaviour_elites(self) -> list[Bred]:
        """Return the fastest of each behaviour, in order; the original if nothing was timed."""
        best: dict[tuple[str, ...], Bred] = {}
        for bred in self:
            elite = best.get(bred.behaviour)
            if bred.time_ms is not None and (elite is None or _timed_ms(bred) < _timed_ms(elite)):
                best[bred.behaviour] = bred
        return sorted(best.values(), key=_timed_ms) or [self._bred[self.original]]

    @property
    def parent_is_open(self) -> bool:
        """True if something may come of a parent."""
        return bool(self._open_parents())

    def parent(self) -> Bred | None:
        """Return the next one to build on; ``None`` if nothing comes of any.

        It is the fastest of a behaviour, or as fast within noise, by other rewrites. A cheat, or
        what is wrong, is no parent: it has no time.
        """
        open_ = self._open_parents()
        if not open_:
            return None
        weights = [self._parent_weight(elite) for elite in open_]
        chosen = self._random.choices(open_, weights)[0]
        self._rounds[chosen.variant.id] += 1
        return chosen

    def _open_parents(self) -> list[Bred]:
        """Return elites, and what is as fast by other rewrites, of which something may come."""
        elites = self.behaviour_elites()
        parents = list(elites)
        for elite in elites:
            kinds = {frozenset(self._kinds_of(elite))}
            near = (bred for bred in self if bred.behaviour == elite.behaviour)
            for bred in near:
                own = frozenset(self._kinds_of(bred))
                is_near = bred.time_ms is not None and _timed_ms(bred) <= _NEAR * _timed_ms(elite)
                if is_near and own not in kinds:
                    kinds.add(own)
                    parents.append(bred)
        return [parent for parent in parents if parent.variant.id not in self._dry]

    def _kinds_of(self, bred: Bred) -> list[str]:
        """Return the kinds of rewrite that led to a variant."""
        kinds = bred.variant.kind.split(" + ")
        parent = bred.variant.parent
        return kinds if parent is None else [*kinds, *self._kinds_of(self._bred[parent])]

    def mark_barren(self, name: str) -> None:
        """Record that nothing new was proposed for a parent."""
        self._dry.add(name)

    def children(self, name: str) -> list[Bred]:
        """Return what was made of a variant, oldest first."""
        return [bred for bred in self if bred.variant.parent == name]

    def gain(self, bred: Bred) -> float | None:
        """Return the parent's time over the variant's own; ``None`` if either has none."""
        parent = None if bred.variant.parent is None else self._bred[bred.variant.parent]
        if parent is None or parent.time_ms is None or bred.time_ms is None:
            return None
        return parent.time_ms / bred.time_ms

    def _parent_weight(self, bred: Bred) -> float:
        if bred.time_ms is None:
            return 1.0
        behind = math.log2(_timed_ms(bred) / _timed_ms(self.best))
        return math.exp(-behind / _HEAT) * _CHILD ** self._rounds[bred.variant.id]


def _timed_ms(bred: Bred) -> float:
    return math.inf if bred.time_ms is None else bred.time_ms


def behaviour_of(analysis: Analysis, device: Device, verdict: Verdict) -> tuple[str, ...]:
    """Return what the archive keeps variants apart by; empty if nothing is known, or it failed."""
    kernels = analysis.kernels
    if not kernels or verdict.is_failure:
        return ()
    main = max(kernels, key=_modelled_ms)
    blocks = math.prod(main.launch.grid)
    few = device.sm_count is not None and blocks <= _FEW_BLOCKS * device.sm_count
    shared = "shared memory" if main.facts.shared_bytes else "registers"
    return (
        f"{min(len(kernels), 3)} launches",
        "unknown" if main.model is None else main.model.limiter,
        "few blocks" if few else "many blocks",
        shared,
    )


def _modelled_ms(kernel: KernelAnalysis) -> float:
    return 0.0 if kernel.model is None else kernel.model.time_ms
