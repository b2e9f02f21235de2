from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import time
import traceback

import model_fakes as fakes
import pytest
from model_fakes import CANARY_KEY, REQUEST, completion, says, serving

from solkit.errors import InputError, UnsupportedError
from solkit.llm import keys
from solkit.llm.client import Failure, Reply, Trouble
from solkit.llm.endpoint import Endpoint, Limits

# looked for, not imported: that takes a second of each process that collects tests
if importlib.util.find_spec("openai") is None:
    pytest.skip("this needs solkit[llm]", allow_module_level=True)


@pytest.fixture(autouse=True)
def _no_key_of_ones_own(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(keys, "_taken", {})


def ask(server, **limits):
    endpoint = Endpoint(server.url, "fake-model", limits=Limits(**{"attempt_s": 5.0, **limits}))
    try:
        return endpoint.ask(REQUEST)
    finally:
        endpoint.close()


def test_a_completion_is_a_reply_with_its_usage():
    with serving(says(completion("Hello"))) as server:
        assert ask(server) == Reply("Hello", 10, 20, "fake-model-1", "stop")
    sent = server.requests[0]
    assert sent["model"] == "fake-model"
    assert sent["messages"][1] == {"role": "user", "content": "Write a kernel."}
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (100, 0.5, 7)


@pytest.mark.parametrize(
    ("behaviour", "trouble", "word"),
    [
        (says({"error": {"message": "slow down"}}, 429), Trouble.RATE_LIMIT, "slow down"),
        (says({"error": {"message": "oh"}}, 500), Trouble.SERVER, "500"),
        (says(b"<html>bad gateway</html>", 502), Trouble.SERVER, "502"),
        (says({"error": {"message": "bad key"}}, 401), Trouble.REFUSED, "bad key"),
        (says({"error": {"message": "no such model"}}, 404), Trouble.REFUSED, "no such model"),
        (says(b"", 302, Location="http://127.0.0.1:9/v1"), Trouble.REFUSED, "redirects"),
        (says(b"not JSON"), Trouble.NONSENSE, "no chat completion"),
        (says(b'{"choices": ['), Trouble.NONSENSE, "no chat completion"),
        (says(b"[" * 100_000), Trouble.NONSENSE, "no chat completion"),
        (says(b"\xff\xfe\x00"), Trouble.NONSENSE, "no chat completion"),
        (says(b""), Trouble.NONSENSE, "no chat completion"),
        (says([]), Trouble.NONSENSE, "no chat completion"),
        (says({"choices": []}), Trouble.NONSENSE, "choices"),
        (says({"choices": [{}]}), Trouble.NONSENSE, "message"),
        (says({"choices": [{"message": {"content": None}}]}), Trouble.NONSENSE, "content"),
        (says({"choices": [{"message": {"content": ["a"]}}]}), Trouble.NONSENSE, "content"),
        (says({"choices": "abc"}), Trouble.NONSENSE, "choices"),
        (says(b'{"choices": [{"message": {"content": "\\ud800"}}]}'), Trouble.NONSENSE, "no chat"),
        (says({"error": "none"}), Trouble.NONSENSE, "choices"),
        (says(b"\x1f\x8b\x00", Content_Encoding="gzip"), Trouble.NONSENSE, "compressed"),
        (fakes.hangs_up, Trouble.UNREACHABLE, "cannot be reached"),
    ],
)
def test_what_is_no_completion_is_a_failure_of_its_kind(behaviour, trouble, word):
    with serving(behaviour) as server:
        points = ask(server)
    assert isinstance(points, Failure)
    assert points.trouble is trouble
    assert word in points.why


@pytest.mark.parametrize(
    "usage",
    [
        *(None, {}, [], "many", {"prompt_tokens": 1}),
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": 1.5, "completion_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 10**30, "completion_tokens": 1},
    ],
)
def test_absurd_usage_is_no_usage(usage):
    with serving(says({**completion("Hello"), "usage": usage})) as server:
        points = ask(server)
    assert (points.text, points.tokens_in, points.tokens_out) == ("Hello", None, None)


def test_retry_after_is_read_as_seconds_or_date():
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    for text, low, high in (("7", 7, 7), (later, 25, 31), ("soon", None, None), ("-3", 0, 0)):
        with serving(says({}, 429, Retry_After=text)) as server:
            wait_s = ask(server).retry_after_s
        assert wait_s is None if low is None else low <= wait_s <= high


@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_body_is_cut(status):
    with serving(fakes.endless(b" " * 65536, status=status)) as server:
        points = ask(server, body_bytes=1 << 20)
    assert points.trouble is Trouble.OVERSIZED


@pytest.mark.parametrize(
    "behaviour",
    [fakes.silent(3.0), fakes.endless(b" ", 0.1), fakes.endless_headers(0.1)],
    ids=["silence", "drip", "headers"],
)
def test_a_slow_answer_is_left_at_the_time_limit(behaviour):
    with serving(behaviour) as server:
        started = time.monotonic()
        points = ask(server, attempt_s=0.2)
        assert time.monotonic() - started < 30  # this machine may be busy
    assert points.trouble is Trouble.TIME_OUT


def test_nobody_there_is_unreachable():
    with serving(fakes.hangs_up) as server:
        pass
    assert ask(server).trouble is Trouble.UNREACHABLE


def test_a_model_that_wants_another_name_for_the_limit_gets_it():
    error = {"error": {"message": "max_tokens: use max_completion_tokens instead"}}
    with serving(says(error, 400), says(completion("Hello"))) as server:
        endpoint = Endpoint(server.url, "fake-model")
        assert endpoint.ask(REQUEST).trouble.may_pass
        assert endpoint.ask(REQUEST).text == "Hello"
    assert "max_tokens" not in server.requests[1]
    assert server.requests[1]["max_completion_tokens"] == 100


@pytest.mark.parametrize(
    "url", ["", "host/v1", "ftp://host", "http://", "http://a:b@host/v1", "https://host/v1?key=a"]
)
def test_unusable_urls_are_errors_that_repeat_no_secret(url):
    with pytest.raises(InputError) as caught:
        Endpoint(url, "m", key_variable=None)
    assert "a:b" not in str(caught.value)


def test_a_host_elsewhere_needs_a_key_or_none_by_name(monkeypatch):
    with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
        Endpoint("https://example.com/v1", "m")
    with pytest.raises(InputError, match="MY_KEY is not set"):
        Endpoint("http://127.0.0.1:9/v1", "m", key_variable="MY_KEY")
    monkeypatch.setenv("MY_KEY", "line\nbreak")
    with pytest.raises(InputError, match="no HTTP header"):
        Endpoint("https://example.com/v1", "m", key_variable="MY_KEY")
    assert Endpoint("https://example.com/v1", "m", key_variable=None).host == "example.com"


def test_without_openai_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[llm\]'"):
        Endpoint("http://127.0.0.1:9/v1", "m", key_variable=None)


# The canary key.


def test_the_key_is_sent_and_shown_nowhere_else(monkeypatch, caplog, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY_KEY)
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"Incorrect API key provided: {CANARY_KEY}"}}
    behaviours = (
        *(says(echo, 401), says(echo, 500), says(completion(f"Your key is {CANARY_KEY}"))),
        *(says({"model": CANARY_KEY, "choices": [{"message": {"content": "a"}}]}), fakes.hangs_up),
        says(f'{{"{CANARY_KEY}": '.encode()),
    )
    with serving(*behaviours) as server:
        endpoint = Endpoint(server.url, "fake-model")
        points = [endpoint.ask(REQUEST) for _ in behaviours]
    assert {sent["authorization"] for sent in server.headers} == {f"Bearer {CANARY_KEY}"}
    seen = [
        repr(points),
        repr(endpoint),
        repr(vars(endpoint)["_key"]),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert not any(CANARY_KEY in text for text in seen)
    assert "[key]" in points[0].why
    assert points[2].text == "Your key is [key]"


def test_no_exception_of_the_client_leaves_with_the_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", CANARY_KEY)
    endpoint = Endpoint("http://127.0.0.1:9/v1", "fake-model")

    def fails(_request):
        raise ValueError(f"Bearer {CANARY_KEY}")

    monkeypatch.setattr(endpoint, "_response_body", fails)
    points = endpoint.ask(REQUEST)
    assert CANARY_KEY not in repr(points)
    try:
        raise RuntimeError(repr(endpoint))
    except RuntimeError:
        assert CANARY_KEY not in traceback.format_exc()


@pytest.mark.slow
def test_children_do_not_see_the_key():
    """In a process of its own, whose environment holds the key from the start."""
    code = f"""
import os, subprocess, sys
from pathlib import Path
from solkit.processes.jobs import Jobs
from solkit.llm.endpoint import Endpoint

endpoint = Endpoint("http://127.0.0.1:9/v1", "m")
assert endpoint._key.reveal_key() == {CANARY_KEY!r}
assert "OPENAI_API_KEY" not in os.environ
look = "import os; print(os.environ); print(open(f'/proc/{{os.getppid()}}/environ').read())"
seen = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout
jobs = Jobs("os:getcwd")
seen += str(jobs.call("subprocess:getoutput", "env; cat /proc/$PPID/environ"))
seen += Path("/proc/self/environ").read_text()
jobs.close()
assert "PATH=" in seen
assert {CANARY_KEY!r} not in seen
Endpoint("http://127.0.0.1:9/v1", "m")
"""
    env = {**os.environ, "OPENAI_API_KEY": CANARY_KEY}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_sandbox_passes_no_key_on():
    from solkit.processes.sandbox import Sandbox

    fields = {
        "OPENAI_API_KEY": CANARY_KEY,
        "MY_KEY": CANARY_KEY,
        "HF_TOKEN": CANARY_KEY,
        "LANG": "C",
    }
    inside = Sandbox.environment(None, fields)  # type: ignore[arg-type]  # it uses no instance
    assert inside["LANG"] == "C"
    assert CANARY_KEY not in inside.values()


def test_a_key_hides_itself_and_stays_in_its_process(monkeypatch):
    import pickle

    monkeypatch.setenv("MY_KEY", CANARY_KEY)
    key = keys.take_key("MY_KEY")
    assert keys.take_key("MY_KEY") is key
    assert CANARY_KEY not in f"{key} {key!r}"
    assert key.hide_in(f"a {CANARY_KEY} b") == "a [key] b"
    assert keys.Key("none").hide_in("none of it") == "none of it"
    with pytest.raises(TypeError):
        pickle.dumps(key)
