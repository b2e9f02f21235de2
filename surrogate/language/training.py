"""Training of the language regressor: first to read kernels, then what they take.

A step takes pieces of problems, each some rows of one problem on one GPU, drawn from all of them:
steps that drew from a few families at a time learned worse. Some pieces of a kernel come together,
so that its text is read once for them. The loss has three parts: how far the
distribution is from the true bin and its neighbours, in which order rows of one problem are
(RankNet: Burges et al., "Learning to rank using gradient descent", 2005), and facts that only a
compiler knows, as far as they are known. Each text is read in one of several variants
(`solkit.surrogate.language.kernel_text`).

The order of the data follows from the seed and the step alone, so that a run that was interrupted
goes on as if it had not been.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from solkit.errors import InputError, WorkerError
from solkit.surrogate.features import Array
from solkit.surrogate.language.backbone_reading import (
    FrozenStates,
    allowed_attention,
    autocast_precision,
)
from solkit.surrogate.language.checkpoints import load_checkpoint, save_checkpoint
from solkit.surrogate.language.corpus import Corpus, Room
from solkit.surrogate.language.cuda_graphs import GraphedFunction
from solkit.surrogate.language.kernel_text import Writer
from solkit.surrogate.language.network import (
    Batch,
    Packing,
    Reading,
    Rows,
    Texts,
    pad_token_ids,
    send_to_device,
)
from solkit.surrogate.language.numbers import FACTS, Scale
from solkit.surrogate.language.packed_attention import is_packable, pack_texts
from solkit.surrogate.language.tokens import Encoded, encode_texts
from solkit.surrogate.table import Table
from solkit.surrogate.trees import DEFAULTS, drawn_rows, log2_target, row_weights, useful_features

if TYPE_CHECKING:
    from solkit.surrogate.language.regressor import Parts

_CLIP = 4.0  # standard deviations of a fact
_PAIR_LOG2 = 0.1  # rows of a problem whose times differ by less are not told apart
_STEEP = 4.0  # how fast the loss of a pair falls with the difference, per log2
_BLUR = 0.25  # of the true bin, in log2: about what a good model is off by
_KEPT_EVERY = 40  # steps
_ROOM_ROWS, _ROOM_TEXTS, _ROOM_TOKENS = 512, 32, 8192
"""Multiples that a graph's rows, texts and packed tokens are."""


@dataclass(frozen=True)
class Learning:
    """Settings of a model's learning.

    Attributes:
        passes: how often each row is seen.
        rows: of a step, about.
        piece: rows of one problem that a step takes together.
        beside: pieces of one kernel that a step takes together.
        rate: learning rate of the decoder at its highest.
        backbone_rate: that of the backbone, as a share.
        decay: weight decay.
        order: weight of the order within a problem.
        facts: weight of the facts that are guessed.
        variants: of each text; 0 reads texts as they are.
        unread: share of the texts that are hidden, so that numbers alone are understood, too.
        unknown: share of the features that are hidden.
        most: tokens of a text that are read.
        graphs: whether a GPU runs a step as one CUDA graph, where it reads texts packed.
        seed: of everything that is drawn.
    """

    passes: float = 10.0
    rows: int = 768
    piece: int = 32
    beside: int = 3
    rate: float = 1e-3
    backbone_rate: float = 0.5
    decay: float = 0.05
    order: float = 0.5
    facts: float = 1.0
    variants: int = 6
    unread: float = 0.1
    unknown: float = 0.0
    most: int = 1024
    graphs: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Pretraining:
    """Settings of a backbone that learns to read kernels before it learns any time.

    Attributes:
        steps: of `texts` texts each.
        texts: of a step.
        variants: of each text.
        hidden: share of the tokens that are hidden, in spans.
        span: mean length of these.
        rate: learning rate at its highest.
        most: tokens of a text that are read.
        seed: of everything that is drawn.
    """

    steps: int = 1500
    texts: int = 32
    variants: int = 4
    hidden: float = 0.2
    span: float = 3.0
    rate: float = 1e-3
    most: int = 1024
    seed: int = 0


def compiled_facts(table: Table, compiled: Table) -> Array:
    """Return the compiled depth's facts of a table's rows, (rows, `FACTS`); NaN where none."""
    names = ("kernel_id", "problem_id", "params", "device", "triton_version")

    def configuration_keys(source: Table) -> list[tuple[str, ...]]:
        return list(zip(*(source.about[name].astype(str).tolist() for name in names), strict=True))

    place = {key: at for at, key in enumerate(configuration_keys(compiled))}
    rows = np.array([place.get(key, -1) for key in configuration_keys(table)], int)
    facts = np.full((len(table), len(FACTS)), np.nan, np.float32)
    for at, name in enumerate(FACTS):
        if name in compiled.names:
            facts[rows >= 0, at] = compiled.column(name)[rows[rows >= 0]]
    return facts


# ---------------------------------------------------------------------------------- pretraining


def pretrain_network(
    texts: Sequence[str],
    parts: Parts,
    how: Pretraining,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Teach a backbone to fill in what is hidden of texts.

    Args:
        texts: from `solkit.surrogate.language.kernel_text`; none of what is left out of a fold.
        parts: whose network learns.
        how: it learns.
        tell: receives what is done.
    """
    network, tokenizer, device = parts.network, parts.tokenizer, parts.device
    learns = [parameter for parameter in network.backbone.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learns, lr=how.rate, weight_decay=0.01)
    schedule = _cosine_schedule(optimizer, how.steps)
    chance, writer = random.Random(how.seed), Writer()
    written = [writer.variant(text, chance)[0] for text in texts for _ in range(how.variants)]
    encoded = encode_texts(tokenizer, written, [()] * len(written), min(how.most, parts.most))
    generator = torch.Generator().manual_seed(how.seed)
    mask = int(tokenizer.mask_token_id)
    network.train()
    for step in range(how.steps):
        batch, _ = pad_token_ids(
            [text.ids for text in chance.sample(encoded, min(how.texts, len(encoded)))]
        )
        hidden = _hidden_spans(batch, how, generator)
        shown = torch.where(hidden, mask, batch).to(device)
        with autocast_precision(device):
            states = network.backbone(input_ids=shown, attention_mask=(shown != 0).long())
            at = hidden.to(device)
            logits = network.spelled(states.last_hidden_state[at])
        loss = F.cross_entropy(logits.float(), batch.to(device)[at])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        _zero_bad_gradients(learns)
        _optimizer_step(learns, optimizer, schedule)
        if (step + 1) % 100 == 0 or step + 1 == how.steps:
            tell(f"read {step + 1} of {how.steps} steps: {loss.item():.2f} nats a token")
    network.train(False)


def _hidden_spans(ids: Tensor, how: Pretraining, generator: torch.Generator) -> Tensor:
    """Tell for each token whether it is hidden, (texts, tokens): spans of geometric length."""
    starts = torch.rand(ids.shape, generator=generator) < how.hidden / how.span
    hidden, going = torch.zeros_like(starts), torch.zeros(len(ids), dtype=torch.bool)
    goes_on = torch.rand(ids.shape, generator=generator) < 1 - 1 / how.span
    for at in range(ids.shape[1]):
        going = starts[:, at] | (going & goes_on[:, at])
        hidden[:, at] = going
    return hidden & (ids != 0)


# ------------------------------------------------------------------------------------- learning


def feature_scale(table: Table) -> Scale:
    """Return the scale of the features that the trees would use."""
    return Scale.from_table(table, useful_features(table, DEFAULTS))


def fit_network(
    table: Table,
    parts: Parts,
    how: Learning,
    facts: Array | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Teach a network a table's rows.

    Args:
        table: with times, and the texts of its kernels.
        parts: whose network learns.
        how: it learns.
        facts: from `compiled_facts`; ``None`` if there are none.
        checkpoint: a file that holds how far it is; if it exists, learning goes on from there.
        tell: receives what is done.

    Raises:
        InputError: there is nothing to learn from, or the checkpoint is of another run.
        WorkerError: the loss became no number.
    """
    table = table[(chosen := np.flatnonzero(drawn_rows(table, DEFAULTS.most)))]
    if not len(table):
        raise InputError("the language regressor has no rows to learn from")
    chosen_facts = None if facts is None else facts[chosen]
    _Learner(table, parts, how, chosen_facts, tell).run(Path(checkpoint) if checkpoint else None)


@dataclass(frozen=True)
class _Answers:
    """Answers that a batch's rows must learn.

    Attributes:
        targets: log2(time / base), (rows,).
        base: log2 of it, (rows,).
        problem: a number of the problem that each is of, (rows,).
        weight: 0 of rows that only fill the batch up, (rows,).
        counts: which rows count, rather than fill the batch up, (rows,).
        facts: in standard deviations, (rows, facts).
        facts_known: which are, (rows, facts).
    """

    targets: Tensor
    base: Tensor
    problem: Tensor
    weight: Tensor
    counts: Tensor
    facts: Tensor
    facts_known: Tensor


def _pack_batch(batch: Batch) -> Batch:
    """Pack a batch: its texts end to end, and padding up to one of a few shapes."""
    texts = batch.texts
    more = -(-_ROOM_TOKENS // texts.ids.shape[1])
    return replace(batch, texts=replace(texts, packing=pack_texts(texts, _ROOM_TOKENS, more)))


def _batch_to_tensors(batch: Batch, answers: _Answers) -> list[Tensor]:
    """Return a batch whose texts are packed, and its answers, taken apart."""
    texts, lie = batch.texts, batch.texts.packing
    assert lie is not None
    return [
        *(texts.ids, texts.mask, texts.names, lie.position, lie.place, lie.starts),
        *vars(batch.rows).values(),
        *vars(answers).values(),
    ]


def _batch_from_tensors(tensors: Sequence[Tensor]) -> tuple[Batch, _Answers]:
    """Undo `_batch_to_tensors`; the texts' own lengths are not known again."""
    ids, mask, names, position, place, starts, *rest = tensors
    lengths = (ids.shape[1],) * len(ids)
    lie = Packing(position, place, starts, ids.shape[1])
    number = len(rest) - len(fields(_Answers))
    rows, answers = Rows(*rest[:number]), _Answers(*rest[number:])
    return Batch(Texts(ids, mask, names, lengths, lie), rows), answers


class _Learner:
    """One run of `fit_network`."""

    def __init__(
        self,
        table: Table,
        parts: Parts,
        how: Learning,
        facts: Array | None,
        tell: Callable[[str], None],
    ) -> None:
        self.how, self.tell = how, tell
        self.network, self.device = parts.network, parts.device
        corpus = Corpus.from_table(table, parts.tokenizer, parts.scale, min(how.most, parts.most))
        self.corpus = corpus.to(self.device)
        self.targets = self._float_tensor(log2_target(table)).clamp(*parts.range)
        self.base = self._float_tensor(np.log2(table.base_ms))
        weight = row_weights(table, DEFAULTS.focus, DEFAULTS.crowd)
        self.weight = self._float_tensor(weight / weight.mean())
        keys = table.row_keys(("problem_id", "device"))
        self.problem = np.unique(keys, return_inverse=True)[1].reshape(-1)
        self.problems = torch.as_tensor(self.problem, device=self.device)
        order = np.argsort(self.problem, kind="stable")
        starts = np.flatnonzero(np.diff(self.problem[order])) + 1
        self.groups = np.split(order, starts)
        self.facts, self.facts_known = self._standardise_facts(facts, len(table))
        self.steps = max(math.ceil(how.passes * len(table) / how.rows), 1)
        self._variants = self.corpus.variants(how.variants, Writer(), how.seed)
        self._is_foreign = bool(self.network.config.backbone_path)
        self._frozen: FrozenStates | None = None
        self._graphed: GraphedFunction | None = None
        self._room = self._room_for_largest()

    def _room_for_largest(self) -> Room:
        """Return the room that holds any of the texts."""
        texts = [text for variants in self._variants for text in variants]
        texts = texts or self.corpus.encoded_all(range(len(self.corpus.texts)))
        return Room(
            tokens=max((len(text.ids) for text in texts), default=1),
            names=max((len(own_names) for own_names in self.corpus.names), default=1),
            named=self.corpus.named,
        )

    def run(self, checkpoint: Path | None) -> None:
        """Learn all steps, from a checkpoint on if there is one."""
        parts = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        backbone = {id(parameter) for parameter in self.network.backbone.parameters()}
        rates = {True: self.how.rate * self.how.backbone_rate, False: self.how.rate}
        optimizer = torch.optim.AdamW(
            [
                {"params": chosen, "lr": rates[reads]}
                for reads in (True, False)
                if (chosen := [part for part in parts if (id(part) in backbone) is reads])
            ],
            weight_decay=self.how.decay,
            fused=self.device.type == "cuda",
        )
        schedule = _cosine_schedule(optimizer, self.steps)
        kept = {"optimizer": optimizer, "schedule": schedule}
        how = {name: value for name, value in vars(self.how).items() if name != "graphs"}
        about = {"how": how, "rows": len(self.targets)}
        first = load_checkpoint(checkpoint, self.network, about, kept, self.device)
        self._frozen = self._encode_frozen(first)
        self._graphed = self._make_graphed_step(parts)
        self.network.train()
        for step, rows in enumerate(self._rows_of_steps()):
            if step == self.steps:
                break
            if step < first:
                continue
            loss = self._learn_step(rows, step)
            _optimizer_step(parts, optimizer, schedule)
            if (step + 1) % 50 == 0 or step + 1 == self.steps:
                self._report_step(step + 1, loss.item())
            is_due = (step + 1) % _KEPT_EVERY == 0 or step + 1 == self.steps
            if checkpoint is not None and is_due:
                save_checkpoint(checkpoint, step + 1, self.network, about, kept)
        self.network.train(False)

    def _report_step(self, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise WorkerError(f"the loss is {loss} at step {step} of {self.steps}")
        self.tell(f"learned {step} of {self.steps} steps: loss {loss:.3f}")

    # ---------------------------------------------------------------------------------- batches

    def _rows_of_steps(self) -> Iterator[Array]:
        """Yield rows of each step, for ever; each row comes once before any comes again."""
        chance, size = np.random.default_rng(self.how.seed), self.how.piece
        while True:
            pieces: dict[int, list[Array]] = {}
            for rows in self.groups:
                mixed, of_text = chance.permutation(rows), int(self.corpus.text_of[rows[0]])
                parts = [mixed[at : at + size] for at in range(0, len(mixed), size)]
                pieces.setdefault(of_text, []).extend(parts)
            joined: list[Array] = []
            for parts in pieces.values():
                chance.shuffle(parts)
                beside = range(0, len(parts), self.how.beside)
                joined += [np.concatenate(parts[at : at + self.how.beside]) for at in beside]
            chance.shuffle(joined)
            yield from _join_pieces(joined, self.how.rows)

    def _draw_variants(self, rows: Array, step: int) -> dict[int, Encoded]:
        """Return a variant of each text of some rows, in the order that a batch has them."""
        texts = np.unique(self.corpus.text_of[rows]).tolist()
        if not self.how.variants:
            return {text: self.corpus.encoded(text) for text in texts}
        chance = random.Random(f"{self.how.seed} {step}")
        return {text: chance.choice(self._variants[text]) for text in texts}

    def _encode_frozen(self, first: int) -> FrozenStates | None:
        """Return a frozen backbone's states of all texts that steps from `first` on will read."""
        if self.network.config.adapt != "frozen":
            return None
        steps = zip(range(self.steps), self._rows_of_steps(), strict=False)
        texts = (self._draw_variants(rows, step).values() for step, rows in steps if step >= first)
        every = itertools.chain.from_iterable(texts)
        return FrozenStates(self.network, every, self.device, self.tell)

    # ------------------------------------------------------------------------------------- loss

    def _learn_step(self, rows: Array, step: int) -> Tensor:
        """Return the loss of a step, whose gradients are left with the network."""
        torch.manual_seed(1_000_003 * self.how.seed + step)
        if self._graphed is None:
            self.network.zero_grad()
            texts = self._draw_variants(rows, step)
            batch = self.corpus.batch(rows, texts)
            if self._frozen is not None:
                states = self._frozen.of(list(texts.values()), batch.texts.ids.shape[1])
                batch = replace(batch, states=states)
            loss = self._loss_of_batch(batch, self._answers_of_rows(rows, len(rows)))
            with allowed_attention(self.device, is_foreign=self._is_foreign):
                loss.backward()  # type: ignore[no-untyped-call]
            _zero_bad_gradients(self.network.parameters())
            return loss.detach()
        whole = np.resize(rows, _round_up(len(rows), _ROOM_ROWS))
        variants = self._draw_variants(rows, step)
        room = replace(self._room, texts=_round_up(len(variants), _ROOM_TEXTS))
        batch = _pack_batch(self.corpus.batch(whole, variants, room))
        try:
            return self._graphed(*_batch_to_tensors(batch, self._answers_of_rows(whole, len(rows))))
        except torch.OutOfMemoryError:  # graphs keep memory of their own
            self.tell("too little memory for CUDA graphs: steps go on without them")
        self._graphed = None
        torch.cuda.empty_cache()
        return self._learn_step(rows, step)

    def _make_graphed_step(self, parts: Sequence[Tensor]) -> GraphedFunction | None:
        """Return steps as CUDA graphs; ``None`` if a step is more than kernels of fixed shapes."""
        with autocast_precision(self.device, is_foreign=self._is_foreign):
            packs = is_packable(self.network.backbone, self.device)
        if not self.how.graphs or not packs:
            return None

        def learn_batch(*tensors: Tensor) -> Tensor:
            loss = self._loss_of_batch(*_batch_from_tensors(tensors))
            loss.backward()  # type: ignore[no-untyped-call]
            _zero_bad_gradients(parts)
            return loss.detach()

        return GraphedFunction(learn_batch, parts)

    def _answers_of_rows(self, rows: Array, number: int) -> _Answers:
        """Return the answers of some rows, of which the first `number` count."""
        at = send_to_device(torch.as_tensor(rows), self.device)
        counts = torch.arange(len(rows), device=self.device) < number
        return _Answers(
            self.targets[at],
            self.base[at],
            self.problems[at],
            self.weight[at] * counts,
            counts,
            self.facts[at],
            self.facts_known[at] & counts[:, None],
        )

    def _loss_of_batch(self, batch: Batch, answers: _Answers) -> Tensor:
        batch = replace(batch, rows=self._hide_features(batch.rows))
        with autocast_precision(self.device, is_foreign=self._is_foreign):
            logits, guesses = self.network.predictions(self._read_batch(batch), batch.rows)
        logits, bins = logits.float(), self.network.decoder.bins
        off = -(_blur_targets(answers.targets, bins) * logits.log_softmax(-1)).sum(-1)
        loss: Tensor = (off * answers.weight).sum() / answers.counts.sum()
        if self.how.order:
            expected = self.network.decoder.expected(logits)
            loss = loss + self.how.order * _pairwise_order_loss(expected, answers)
        if self.how.facts:
            guess = F.smooth_l1_loss(guesses.float(), answers.facts, reduction="none")
            mask = answers.facts_known
            loss = loss + self.how.facts * (guess * mask).sum() / mask.sum().clamp(min=1)
        return loss

    def _read_batch(self, batch: Batch) -> Reading:
        """Return what the texts of a batch say, some of them hidden."""
        texts = batch.texts
        states = self.network.states(texts) if batch.states is None else batch.states
        reading = self.network.decoder.reading(states, texts.mask, texts.names)
        return reading.without(self.how.unread) if self.how.unread else reading

    def _hide_features(self, rows: Rows) -> Rows:
        """Hide some features."""
        if not self.how.unknown:
            return rows
        hidden = torch.rand(rows.features.shape, device=self.device) < self.how.unknown
        features = rows.features.masked_fill(hidden, 0.0)
        return replace(rows, features=features, unknown=rows.unknown | hidden)

    def _standardise_facts(self, facts: Array | None, rows: int) -> tuple[Tensor, Tensor]:
        """Return facts in standard deviations, and which are known, (rows, facts) each."""
        number = self.network.decoder.sizes.facts
        values = np.full((rows, number), np.nan) if facts is None else facts.astype(float)
        mask = ~np.isnan(values)
        for column, there in zip(values.T, mask.T, strict=True):
            if there.any():
                column -= column[there].mean()
                column /= column[there].std() + 1e-6
        scaled = np.nan_to_num(np.clip(values, -_CLIP, _CLIP))
        return self._float_tensor(scaled), torch.as_tensor(mask, device=self.device)

    def _float_tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.device)


def _zero_bad_gradients(parts: Iterable[Tensor]) -> None:
    """Zero what is no number in gradients: it teaches nothing.

    It belongs to the backward pass, so that a CUDA graph launches it as well.
    """
    for part in parts:
        if part.grad is not None:
            part.grad.nan_to_num_(0.0, 0.0, 0.0)


def _optimizer_step(parts: Sequence[Tensor], optimizer: Any, schedule: Any) -> None:
    """Take one step along the gradients."""
    torch.nn.utils.clip_grad_norm_(parts, 1.0)
    optimizer.step()
    schedule.step()


def _cosine_schedule(optimizer: Any, steps: int) -> Any:
    """Return a schedule: up to the rates in a tenth of the steps, then down along a cosine."""
    rising = max(steps // 10, 1)

    def rate_share(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return (1 + math.cos(math.pi * (step - rising) / max(steps - rising, 1))) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate_share)


def _blur_targets(targets: Tensor, bins: Tensor) -> Tensor:
    """Return the true bin and its neighbours, (rows, bins): a normal distribution around it."""
    half = (bins[1] - bins[0]) / 2
    edges = torch.cat([bins - half, bins[-1:] + half])
    below = torch.special.ndtr((edges - targets[:, None]) / _BLUR)
    share: Tensor = below[:, 1:] - below[:, :-1]
    return share / share.sum(-1, keepdim=True)


def _pairwise_order_loss(expected: Tensor, answers: _Answers) -> Tensor:
    """Return the mean loss of pairs of rows of one problem that differ, as times in log2."""
    forecast, truth = expected + answers.base, answers.targets + answers.base
    slower = truth[:, None] - truth[None] > _PAIR_LOG2
    pairs = slower & (answers.problem[:, None] == answers.problem[None])
    counts = (answers.weight[:, None] * answers.weight[None]).sqrt() * pairs
    off = F.softplus(-_STEEP * (forecast[:, None] - forecast[None]))
    return (off * counts).sum() / counts.sum().clamp(min=1.0)


def _join_pieces(pieces: Sequence[Array], rows: int) -> Iterator[Array]:
    """Yield pieces joined to about as many rows each."""
    whole = sum(map(len, pieces))
    number = max(round(whole / rows), 1)
    for part in range(number):
        chosen = pieces[part::number]
        if chosen:
            yield np.concatenate(chosen)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
