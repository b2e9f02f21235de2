from __future__ import annotations

import json
import re

import hostile_answers as answers
import model_fakes as fakes
import pytest
from model_fakes import CANARY_KEY, Scripted, brief_of, completion, says, serving, talks

from solkit.core import Checked
from solkit.errors import BudgetSpentError, InputError, ModelGoneError, TraceError
from solkit.llm import keys
from solkit.llm.budget import Budget
from solkit.llm.client import Failure, Reply, Trouble
from solkit.llm.endpoint import Endpoint, Limits
from solkit.llm.local import LocalModel
from solkit.llm.retry import Retries, open_chat
from solkit.llm.transcript import ReplayedChat, Transcript, read_exchanges
from solkit.tuner.proposers.llm import LanguageModel, Sampling

GOOD = answers.answer(answers.GOOD)
OTHER = answers.answer(answers.GOOD.replace("num_warps=8", "num_warps=16"))
BRIEF = brief_of(answers.PARENT)
BUSY = Failure(Trouble.RATE_LIMIT, "busy", 7.0)


@pytest.fixture(autouse=True)
def _no_key_of_ones_own(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(keys, "_taken", {})


def model(*script, samples=1, **more):
    return LanguageModel(Scripted(*script), sampling=Sampling(samples=samples), **more)


def test_a_good_answer_is_a_proposal_with_its_origin():
    (proposal,) = model(GOOD).propose(BRIEF)
    assert proposal.kind == "llm"
    assert proposal.intent == "eight warps hide the latency of the loads."
    assert proposal.checked is Checked.UNCHECKED
    assert "scripted (prompt v1, exchange " in proposal.why
    assert "def reference" in proposal.source


def test_refused_answers_are_left_out_and_told():
    messages = []
    proposals = list(model("nonsense", GOOD, samples=2, tell=messages.append).propose(BRIEF))
    assert len(proposals) == 1
    assert messages == [
        "An answer of scripted is refused: the answer has no fenced block of Python"
    ]


def test_the_same_answer_again_is_left_out():
    proposals = list(model(GOOD, GOOD, OTHER, samples=3).propose(BRIEF))
    assert len(proposals) == 2


def test_each_sample_has_its_seed_and_is_asked_for_when_taken():
    chat = Scripted(GOOD, OTHER)
    proposals = LanguageModel(chat, sampling=Sampling(samples=2, seed=5)).propose(BRIEF)
    assert not chat.requests
    next(proposals)
    assert [request.seed for request in chat.requests] == [5]
    next(proposals)
    assert [request.seed for request in chat.requests] == [5, 6]


def test_retries_wait_as_long_as_the_server_wants_and_longer_each_time():
    waits = []
    server = Failure(Trouble.SERVER, "oh")
    proposals = list(model(BUSY, server, server, GOOD, sleep=waits.append).propose(BRIEF))
    assert len(proposals) == 1
    assert waits[0] == 7.0
    assert 2.0 <= waits[1] <= 2.5
    assert 4.0 <= waits[2] <= 5.0


def test_attempts_are_bounded():
    chat = Scripted(Failure(Trouble.SERVER, "oh"))
    asking = LanguageModel(chat, retries=Retries(attempts=3), sleep=lambda _s: None)
    with pytest.raises(ModelGoneError, match="oh"):
        list(asking.propose(BRIEF))
    assert len(chat.requests) == 3


def test_nobody_waits_for_an_hour():
    waits = []
    asking = model(Failure(Trouble.RATE_LIMIT, "busy", 3600.0), sleep=waits.append)
    with pytest.raises(ModelGoneError, match="3600 s, over 60 s"):
        list(asking.propose(BRIEF))
    assert not waits


def test_a_refused_request_is_not_repeated():
    chat = Scripted(Failure(Trouble.REFUSED, "bad key"))
    with pytest.raises(ModelGoneError, match="bad key"):
        list(LanguageModel(chat, sleep=lambda _s: None).propose(BRIEF))
    assert len(chat.requests) == 1


def test_nonsense_costs_one_answer_and_three_in_a_row_end_it():
    nonsense = Failure(Trouble.NONSENSE, "no chat completion")
    assert len(list(model(nonsense, nonsense, GOOD, samples=3).propose(BRIEF))) == 1
    with pytest.raises(ModelGoneError, match="no chat completion"):
        list(model(nonsense, samples=9).propose(BRIEF))


# Money.


@pytest.mark.slow
def test_the_budget_stops_before_a_call_that_could_exceed_it():
    chat, budget = Scripted(GOOD, OTHER), Budget(1.0, 10.0, 100.0)
    sampling = Sampling(samples=100, max_tokens=8192)
    asking = LanguageModel(chat, budget=budget, sampling=sampling)
    with pytest.raises(BudgetSpentError):
        list(asking.propose(BRIEF))
    assert 0 < budget.cost <= 1.0
    worst = (chat.requests[0].most_tokens_in * 10 + 8192 * 100) / 1e6
    assert budget.cost > 1.0 - worst


def test_a_prompt_never_has_more_tokens_than_are_reserved():
    chat = Scripted(GOOD)
    list(LanguageModel(chat).propose(BRIEF))
    (request, *_) = chat.requests
    assert request.most_tokens_in >= sum(len(m.content.encode()) for m in request.messages)


def test_what_was_charged_is_charged_and_failures_cost_nothing_unless_the_model_ran():
    budget = Budget(100.0, 1.0, 1.0)
    list(model(BUSY, GOOD, budget=budget, sleep=lambda _s: None).propose(BRIEF))
    assert budget.tokens == 30
    late = Failure(Trouble.TIME_OUT, "late")
    chat = Scripted(late, GOOD)
    list(
        LanguageModel(
            chat, budget=budget, sampling=Sampling(samples=1), sleep=lambda _s: None
        ).propose(BRIEF)
    )
    assert budget.tokens == 60 + chat.requests[0].most_tokens_in + 8192


def test_an_answer_without_usage_is_charged_in_full_and_told():
    results, budget = [], Budget()
    list(model(Reply(GOOD), budget=budget, tell=results.append).propose(BRIEF))
    assert budget.tokens > 8192
    assert results == ["scripted does not say what an answer cost: the worst case is charged"]


# Through an endpoint.


def through(server, tmp_path, **more):
    more = {"sampling": Sampling(samples=2), "sleep": lambda _s: None, **more}
    chat = Endpoint(server.url, "fake-model", limits=Limits(attempt_s=20.0))
    return LanguageModel(chat, exchanges=Transcript(tmp_path / "log.jsonl"), **more)


def test_a_run_against_an_endpoint_replays_bit_for_bit_without_a_network(tmp_path):
    """The answers are written for the purpose; no model is behind the endpoint."""
    script = (says({}, 429, Retry_After="1"), talks(GOOD), says({}, 500), talks("nonsense"))
    with serving(*script, talks(OTHER)) as server:
        asking = through(server, tmp_path, sampling=Sampling(samples=3))
        first = list(asking.propose(BRIEF))
        count = len(server.requests)
    assert (len(first), count) == (2, 5)
    replay = LanguageModel(
        ReplayedChat(tmp_path / "log.jsonl"),
        exchanges=Transcript(tmp_path / "again.jsonl"),
        sampling=Sampling(samples=3),
        sleep=lambda _s: pytest.fail("a replay waits for nobody"),
    )
    assert list(replay.propose(BRIEF)) == first
    assert (replay.budget.tokens, replay.budget.cost) == (
        asking.budget.tokens,
        asking.budget.cost,
    )
    once, again = (
        [line | {"host": ""} for line in map(json.loads, (tmp_path / name).open())]
        for name in ("log.jsonl", "again.jsonl")
    )
    assert once == again


def test_a_replay_of_another_brief_is_an_error(tmp_path):
    with serving(talks(GOOD)) as server:
        list(through(server, tmp_path).propose(BRIEF))
    other = brief_of(answers.PARENT, advice=("Use more warps.",))
    with pytest.raises(InputError, match="it was never asked"):
        list(LanguageModel(ReplayedChat(tmp_path / "log.jsonl")).propose(other))


def test_every_attempt_is_recorded_with_tokens_cost_and_prompt(tmp_path):
    with serving(says({}, 500), talks(GOOD), talks("nonsense")) as server:
        list(through(server, tmp_path, budget=Budget(9.0, 1.0, 2.0)).propose(BRIEF))
    failed, good, refused = read_exchanges(tmp_path / "log.jsonl")
    assert failed.answer.trouble is Trouble.SERVER
    assert failed.spent.cost == 0.0
    assert good.spent.cost == pytest.approx((10 * 1.0 + 20 * 2.0) / 1e6)
    assert (good.prompt, good.request.model, good.answer.model) == (
        "v1",
        "fake-model",
        "fake-model-1",
    )
    assert good.host.startswith("127.0.0.1:")
    assert refused.refused.startswith("no_code: ")
    assert good.digest == good.request.digest == failed.digest != refused.digest


def test_the_user_is_told_once_where_the_source_goes(tmp_path):
    messages = []
    with serving(talks(GOOD)) as server:
        asking = through(server, tmp_path, tell=messages.append)
        list(asking.propose(BRIEF))
        list(asking.propose(BRIEF))
    (sent,) = (text for text in messages if "sent to" in text)
    here = r"Kernel sources and facts are sent to 127\.0\.0\.1:\d+, on this machine\."
    assert re.fullmatch(here, sent)
    chat = Scripted(GOOD)
    chat.host = "example.com"
    list(LanguageModel(chat, tell=messages.append).propose(BRIEF))
    assert (
        "Kernel sources and facts are sent to example.com, so they leave this machine." in messages
    )


def test_the_key_is_in_no_proposal_record_message_or_error(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY_KEY)
    leak = answers.answer(f"# {CANARY_KEY}\n{answers.GOOD}", f"INTENT: {CANARY_KEY} saves time.")
    echo = {"error": {"message": f"Incorrect API key provided: {CANARY_KEY}"}}
    messages = []
    with serving(talks(leak), talks(CANARY_KEY), says(echo, 401)) as server:
        asking = through(server, tmp_path, sampling=Sampling(samples=3), tell=messages.append)
        proposals = asking.propose(BRIEF)
        first = next(proposals)
        with pytest.raises(ModelGoneError) as caught:
            next(proposals)
    assert server.headers[0]["authorization"] == f"Bearer {CANARY_KEY}"
    error = caught.value
    seen = [repr(first), *messages, str(error), repr(error.__cause__), repr(error.__context__)]
    seen += [(tmp_path / "log.jsonl").read_text(), repr(asking), str(vars(asking))]
    assert not any(CANARY_KEY in text for text in seen)
    assert first.intent == "[key] saves time."


def test_a_record_that_cannot_be_written_is_an_error(tmp_path):
    asking = model(GOOD, exchanges=Transcript(tmp_path / "no folder" / "log.jsonl"))
    with pytest.raises(TraceError, match="could not be saved"):
        list(asking.propose(BRIEF))


def test_a_cut_last_line_is_left_out_and_any_other_is_an_error(tmp_path):
    log = tmp_path / "log.jsonl"
    list(model(GOOD, exchanges=Transcript(log)).propose(BRIEF))
    whole = log.read_text()
    log.write_text(whole + whole[:50])
    assert len(read_exchanges(log)) == 1
    log.write_text(whole[:50] + "\n" + whole)
    with pytest.raises(InputError, match=r"log.jsonl:1: not an exchange"):
        read_exchanges(log)
    with pytest.raises(InputError, match="cannot read"):
        ReplayedChat(tmp_path / "none.jsonl")


@pytest.mark.slow
def test_no_hostile_answer_is_a_proposal(tmp_path):
    """A sample: `test_answers` reads them all."""
    log = Transcript(tmp_path / "log.jsonl")
    sample = [*list(answers.hostile())[::23], ("surrogate", answers.MALFORMED["surrogate"])]
    for name, text in sample:
        assert not list(model(text, exchanges=log).propose(BRIEF)), name
    assert len(read_exchanges(tmp_path / "log.jsonl")) == len(sample)


def test_an_endless_answer_is_survived(tmp_path):
    endless = fakes.endless(b" " * 65536)
    with serving(endless, says(completion(GOOD))) as server:
        proposals = list(through(server, tmp_path).propose(BRIEF))
    assert len(proposals) == 1


@pytest.mark.parametrize(
    "bad", [{"samples": 0}, {"max_tokens": 0}, {"temperature": -1.0}, {"temperature": 3.0}]
)
def test_absurd_sampling_is_an_error(bad):
    with pytest.raises(InputError, match="expected"):
        Sampling(**bad)


def test_a_model_without_a_url_is_local(tmp_path):
    assert isinstance(open_chat(str(tmp_path)), LocalModel)
    assert isinstance(open_chat("name", "http://127.0.0.1:9/v1"), Endpoint)
    with pytest.raises(InputError, match="no such model"):
        open_chat(str(tmp_path / "none"))


def test_a_parent_that_no_answer_could_keep_is_an_error():
    with pytest.raises(InputError, match="no model can be asked about it"):
        list(model(GOOD).propose(brief_of("def (")))
