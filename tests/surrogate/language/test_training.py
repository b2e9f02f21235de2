"""Learning: from text alone, again from a checkpoint, and the same each time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import interrupted, table, tiny

from solkit.errors import InputError, WorkerError
from solkit.surrogate.language import cuda_graphs, training
from solkit.surrogate.language.corpus import Corpus
from solkit.surrogate.language.numbers import FACTS
from solkit.surrogate.language.training import Learning, Pretraining

QUICK = Learning(passes=30, rows=32, piece=4, rate=4e-3, variants=2, unread=0.0, most=256)


def weights_of(model, result):
    network = model.prepared(result).network
    return torch.cat([item.flatten() for item in network.state_dict().values()])


@pytest.mark.slow
def test_what_only_the_text_says_is_learned_and_holds_for_kernels_never_seen():
    result, unseen = table(16), table(8, seed=1)
    unseen.sources.update(
        {f"kernel{k}": text.replace("work", "other") for k, text in unseen.sources.items()}
    )
    model = tiny().fit(result, QUICK)
    reported_forecast = model.forecast(unseen)
    truth = np.log2(unseen.time_ms / unseen.base_ms)
    assert np.median(np.abs(reported_forecast.mean - truth)) < 0.5  # the times are 2 apart, in log2
    assert (reported_forecast.spread > 0).all()


@pytest.mark.slow
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(tmp_path):
    result, file = table(8), tmp_path / "run.pt"
    how = replace(QUICK, passes=16)
    whole = tiny().fit(result, how)
    with interrupted(10):
        tiny().fit(result, how, checkpoint=file)
    assert file.exists()
    resumed = tiny(seed=5).fit(result, how, checkpoint=file)
    torch.testing.assert_close(
        weights_of(resumed, result), weights_of(whole, result), atol=1e-5, rtol=1e-4
    )


@pytest.mark.slow
def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    result, file = table(8), tmp_path / "run.pt"
    tiny().fit(result, replace(QUICK, passes=2), checkpoint=file)
    with pytest.raises(InputError, match=r"run.pt is the checkpoint of a run with other settings"):
        tiny().fit(result, replace(QUICK, passes=3), checkpoint=file)
    fewer = result[np.arange(16)]
    with pytest.raises(InputError, match="other settings or rows"):
        tiny().fit(fewer, replace(QUICK, passes=2), checkpoint=file)


def test_the_same_seed_gives_the_same_weights():
    result = table(4)
    how = replace(QUICK, passes=3)
    first, again = (tiny().fit(result, how) for _ in range(2))
    other = tiny().fit(result, replace(how, seed=1))
    torch.testing.assert_close(weights_of(first, result), weights_of(again, result), atol=0, rtol=0)
    assert not torch.equal(weights_of(first, result), weights_of(other, result))


@pytest.mark.slow
def test_facts_are_guessed_of_kernels_never_seen_though_most_are_unknown():
    results, unseen = table(16), table(8, seed=1)
    facts = np.full((len(results), len(FACTS)), np.nan, np.float32)
    place, slow = FACTS.index("machine.registers"), np.log2(results.time_ms / results.base_ms) > 1
    facts[::2, place] = np.where(slow, 200, 32)[::2]
    model = tiny().fit(results, replace(QUICK, facts=2.0), facts=facts)
    parts = model.prepared(results)
    corpus = Corpus.from_table(unseen, parts.tokenizer, parts.scale)
    with torch.inference_mode():
        guesses = parts.network(corpus.batch(np.arange(len(unseen))))[1][:, place].numpy()
    assert (guesses > 0).tolist() == (np.log2(unseen.time_ms / unseen.base_ms) > 1).tolist()


def test_facts_are_those_of_the_same_configuration():
    result = table(4)
    deep = replace(result, names=("machine.registers", "model.gap"))
    deep = deep[np.arange(len(deep))[::-1]][1:]  # in another order, one missing
    results = training.compiled_facts(result, deep)
    place = FACTS.index("machine.registers")
    np.testing.assert_array_equal(results[:-1, place], result.values[:-1, 0])
    assert np.isnan(results[-1]).all()
    assert np.isnan(results[:, FACTS.index("machine.spills")]).all()


@pytest.mark.slow
def test_hidden_tokens_are_learned():
    result, results = table(8), []
    model = tiny()
    before = weights_of(model, result).clone()
    model.pretrain_backbone(
        result, Pretraining(steps=120, texts=8, rate=4e-3, most=256), results.append
    )
    first, last = (float(item.split()[-4]) for item in (results[0], results[-1]))
    assert last < first < np.log(320)
    assert not torch.equal(before, weights_of(model, result))


def test_hidden_spans_are_as_many_as_asked_for_and_no_padding():
    ids = torch.ones(64, 400, dtype=torch.long)
    ids[:, 300:] = 0
    hidden = training._hidden_spans(
        ids, Pretraining(hidden=0.2, span=3.0), torch.Generator().manual_seed(0)
    )
    assert hidden[:, :300].float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert not hidden[:, 300:].any()


def test_the_order_within_a_problem_is_what_pairs_of_it_say():
    expected = torch.tensor([0.0, 1.0, 5.0, 9.0])
    answers = training._Answers(
        targets=torch.tensor([0.0, 0.5, -3.0, 1.0]),
        base=torch.tensor([0.0, 0.5, 0.0, 0.0]),
        problem=torch.tensor([0, 0, 1, 0]),
        weight=torch.tensor([1.0, 1.0, 1.0, 0.0]),  # the last row only fills up
        counts=torch.ones(4),
        facts=torch.zeros(4, 0),
        facts_known=torch.zeros(4, 0),
    )
    expected = expected - answers.base
    loss = training._pairwise_order_loss(expected, answers)  # one pair, and it is right
    assert loss.item() == pytest.approx(np.log1p(np.exp(-4.0)))
    wrong = training._pairwise_order_loss(-expected - 2 * answers.base, answers)
    assert wrong.item() == pytest.approx(np.log1p(np.exp(4.0)))


def test_each_row_comes_once_before_any_comes_again():
    results = table(12)
    learner = training._Learner(results, tiny().prepared(results), QUICK, None, print)
    batches, seen = learner._rows_of_steps(), []
    while len(seen) < len(results):
        seen += next(batches).tolist()
    assert sorted(seen) == list(range(len(results)))


def test_pieces_of_a_kernel_come_together():
    result = table(12)
    parts = tiny().prepared(result)

    def texts(beside):
        how = replace(QUICK, piece=1, beside=beside, rows=8)
        learner = training._Learner(result, parts, how, None, print)
        return np.mean([len(np.unique(learner.corpus.text_of[rows])) for rows in some(learner)])

    def some(learner):
        return list(itertools.islice(learner._rows_of_steps(), 40))

    assert texts(4) < 0.7 * texts(1)


def test_a_loss_that_is_no_number_spoils_nothing():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = training._cosine_schedule(optimizer, 10)
    (weight * torch.tensor([float("nan"), 1.0])).sum().backward()
    training._zero_bad_gradients([weight])
    training._optimizer_step([weight], optimizer, schedule)
    assert weight[0].item() == 1.0
    assert weight[1].item() < 1.0


@pytest.mark.slow
def test_a_loss_that_stays_no_number_ends_it(monkeypatch):
    monkeypatch.setattr(
        training, "_blur_targets", lambda expected, _: expected[:, None] * float("nan")
    )
    with pytest.raises(WorkerError, match=r"the loss is nan at step \d+ of"):
        tiny().fit(table(8), QUICK)


def test_what_fills_a_batch_up_teaches_nothing():
    results = table(8)
    facts = np.random.default_rng(0).normal(size=(len(results), len(FACTS)))
    parts = tiny().prepared(results)
    learner = training._Learner(results, parts, QUICK, facts, print)
    parts.network.train(False)
    rows = np.array([3, 7, 8, 20, 21])

    def gradients(batch, answers):
        parts.network.zero_grad()
        loss = learner._loss_of_batch(batch, answers)
        loss.backward()
        result = [
            parameter.grad.flatten()
            for parameter in parts.network.parameters()
            if parameter.grad is not None
        ]
        return loss.detach(), torch.cat(result)

    alone = gradients(learner.corpus.batch(rows), learner._answers_of_rows(rows, 5))
    filled = np.resize(rows, training._round_up(len(rows), 8))
    room = replace(learner._room, texts=6)
    batch = training._pack_batch(learner.corpus.batch(filled, {}, room))
    answers = learner._answers_of_rows(filled, 5)
    assert (len(batch.texts.ids), len(batch.rows.text), len(answers.weight)) == (6, 8, 8)
    again = training._batch_from_tensors(training._batch_to_tensors(batch, answers))
    assert [vars(item).keys() for item in again] == [vars(batch).keys(), vars(answers).keys()]
    for name, var in vars(again[0].rows).items():
        assert var is getattr(batch.rows, name)
    for gradient, truth in zip(gradients(*again), alone, strict=True):
        torch.testing.assert_close(gradient, truth, atol=1e-5, rtol=1e-4)


def test_steps_go_on_without_graphs_where_memory_is_short():
    result, said = table(8), []
    learner = training._Learner(result, tiny().prepared(result), QUICK, None, said.append)
    rows = next(learner._rows_of_steps())
    alone = learner._learn_step(rows, 0)

    def short(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    learner._graphed = short
    torch.testing.assert_close(learner._learn_step(rows, 0), alone)
    assert learner._graphed is None
    assert said == ["too little memory for CUDA graphs: steps go on without them"]


def test_shapes_beyond_the_most_graphs_are_computed_without_one(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_MOST", 0)
    weight = torch.nn.Parameter(torch.ones(3))

    def backward(rows):
        loss = (rows @ weight).sum()
        loss.backward()
        return loss.detach()

    graphed = cuda_graphs.GraphedFunction(backward, [weight])
    for _ in range(2):  # gradients are of one call, never of both
        assert graphed(torch.eye(3)).item() == 3.0
        assert weight.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_run_goes_on_with_or_without_graphs(tmp_path):
    result, file = table(8), tmp_path / "kept"
    first = tiny()
    first.fit(result, replace(QUICK, passes=2, graphs=False), checkpoint=file)
    again = tiny()
    again.fit(result, replace(QUICK, passes=2, graphs=True), checkpoint=file)
    outcome, results = (item.forecast(result).mean for item in (first, again))
    np.testing.assert_allclose(results, outcome)


def test_nothing_to_learn_from_is_an_error():
    result = table(4)
    model = tiny()
    model.prepared(result)
    with pytest.raises(InputError, match="no rows to learn from"):
        model.fit(result[np.arange(0)], QUICK)


@pytest.mark.parametrize("steps", [1, 2, 10, 11, 100])
def test_the_rate_rises_then_falls(steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2.0)
    schedule, rates = training._cosine_schedule(optimizer, steps), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    top = rates.index(max(rates))
    assert max(rates) == 2.0
    assert top == max(steps // 10, 1) - 1
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert steps < 100 or rates[-1] < 0.01


@pytest.mark.slow
def test_texts_alone_are_learned_from():
    result = table(16)
    bare = replace(result, values=np.full_like(result.values, np.nan))
    model = tiny().fit(bare, QUICK)
    results = model.forecast(bare).mean
    assert np.median(np.abs(results - np.log2(result.time_ms / result.base_ms))) < 0.5
