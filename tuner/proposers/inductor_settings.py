"""Variants of what `torch.compile` would run: its program under other settings of Inductor.

Inductor decides some things by rules that know neither the sizes nor the GPU: in which layout
convolutions run, and how reductions are split. Here each decision is taken the other way, and the
search measures which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from solkit.core import Bound, Brief, Proposal
from solkit.errors import SolkitError
from solkit.roofline.precision_routes import triton_precisions

Compile = Callable[[Mapping[str, Any]], str]
"""The kernel file that Inductor's program under some settings is.

Raises `SolkitError` where there is none.
"""


@dataclass(frozen=True)
class Choice:
    """A decision of Inductor's, taken the other way.

    Attributes:
        kind: its name.
        intent: what it is meant to gain, a sentence.
        settings: of ``torch._inductor.config`` (torch/_inductor/config.py), or of the program.
        least_sms: streaming multiprocessors that a GPU needs for it.
    """

    kind: str
    intent: str
    settings: Mapping[str, Any]
    least_sms: int = 0

    @property
    def has_precision(self) -> bool:
        """Tell whether it has products of fp32 computed in some precision."""
        return not _PRECISE.isdisjoint(self.settings)

    def in_precision(self, bound: Bound) -> Choice:
        """Return it with products of fp32 in the fastest precision that a bound admits."""
        if not self.has_precision:
            return self
        precision = next((name for name, _ in triton_precisions(bound)), "ieee")
        own = dict.fromkeys(_PRECISE & self.settings.keys(), precision)
        return replace(self, settings={**self.settings, **own})


_PRECISE = frozenset(("solkit.own_products", "solkit.split_products"))
"""Settings of `solkit.adapters.inductor_program`: Triton's precision of products of fp32."""

CHOICES = (
    Choice(
        "own attention",
        "Attention runs as a kernel that is written for its masks, biases and shapes.",
        {"solkit.own_attention": True},  # solkit.adapters.inductor_program
    ),
    Choice(
        "own products",
        "Products are kernels of the program, which compute operands and results in place.",
        {"solkit.own_products": "ieee"},  # solkit.adapters.inductor_program
    ),
    Choice(
        "own narrow products",
        "Products are kernels of the program, in the 16 bits of an operand before it was widened.",
        {"solkit.narrow_products": True, "solkit.own_products": "ieee"},
    ),
    Choice(
        "fused attention",
        "Attention that is written out runs as one kernel, which keeps no scores in memory.",
        {"solkit.fused_attention": True},  # solkit.adapters.inductor_program
    ),
    Choice(
        "attention in 16 bits",
        "Attention in fp32 runs as a kernel that multiplies numbers which are split in fp16.",
        {"solkit.narrow_attention": True},  # solkit.adapters.inductor_program
    ),
    Choice(
        "narrow products",
        "Operands that were widened to fp32 are multiplied in 16 bits; one beside them is rounded.",
        {"solkit.narrow_products": True},  # solkit.adapters.inductor_program
    ),
    Choice(
        "split products",
        "Products of few blocks are summed in parts by more programs, and joined in a launch.",
        {"solkit.split_products": "ieee"},  # solkit.adapters.inductor_program
    ),
    Choice(
        "own layout",
        "Convolutions take tensors in the layout that they have, without copies to channels last.",
        {"layout_optimization": False},
    ),
    Choice(
        "cooperative reduction",
        "Several programs share a reduction and meet at a barrier, in one launch.",
        {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True},
        132,  # as many programs wait for each other: solkit.adapters.inductor_space
    ),
    Choice(
        "whole reduction",
        "One program reduces as much as there is, so that a launch fewer reads and writes sums.",
        {"split_reductions": False},
    ),
    Choice(
        "tiles",
        "Programs take tiles of two dimensions, so that transposed reads and writes coalesce.",
        {"triton.prefer_nd_tiling": True, "triton.tile_reductions": True},
    ),
)


@dataclass
class InductorSettings:
    """Compiles a reference under other settings, for the program of which it wrote the file.

    Args:
        first: the file of the program under Inductor's own settings.
        compile: gives the file of other settings. Several are asked for at a time.
        sm_count: of the GPU.
    """

    first: str
    compile: Compile
    sm_count: int
    name: str = field(default="inductor", init=False)
    _settings: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _texts: dict[str, str | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._settings[self.first] = {}

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """Yield one further decision the other way; none for files that others wrote."""
        if (own := self._settings.get(brief.source)) is None:
            return
        open_to = [choice for choice in CHOICES if not choice.settings.keys() <= own.keys()]
        open_to = [choice for choice in open_to if choice.least_sms <= self.sm_count]
        if brief.result is not None:
            open_to = [choice.in_precision(brief.result.bound) for choice in open_to]
        all_settings = [{**own, **choice.settings} for choice in open_to]
        pool = ThreadPoolExecutor(len(CHOICES))  # each thread waits for a process of its own
        try:
            texts = list(pool.map(self._compile_settings, all_settings))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        seen: set[str] = {brief.source, self.first}
        for choice, settings, text in zip(open_to, all_settings, texts, strict=True):
            if text is not None and text not in seen:
                seen.add(text)
                self._settings.setdefault(text, settings)
                yield Proposal(text, choice.kind, choice.intent)

    def _compile_settings(self, settings: Mapping[str, Any]) -> str | None:
        """Return the file of some settings, made once; ``None`` if there is none."""
        key = repr(sorted(settings.items()))
        if key not in self._texts:
            try:
                self._texts[key] = self.compile(settings)
            except SolkitError:  # which says nothing of the others
                self._texts[key] = None
        return self._texts[key]
