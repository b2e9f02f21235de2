"""An endpoint on this machine whose answers are written for the purpose; no model is behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from solkit.core import Brief
from solkit.llm.client import Answered, Message, Reply, Request
from solkit.roofline import devices

CANARY_KEY = "sk-canary-0123456789abcdef"
MESSAGES = (Message("system", "Be brief."), Message("user", "Write a kernel."))
REQUEST = Request("fake-model", MESSAGES, max_tokens=100, temperature=0.5, seed=7)

Behaviour = Callable[[BaseHTTPRequestHandler], None]


class Endpoint:
    """What the fake endpoint was asked, and what it does: each behaviour once, the last again."""

    def __init__(self, behaviours: list[Behaviour]) -> None:
        self.behaviours = behaviours
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def next(self) -> Behaviour:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]


@contextmanager
def serving(*behaviours: Behaviour) -> Iterator[Endpoint]:
    """A fake endpoint on a free port."""
    state = Endpoint(list(behaviours))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(json.loads(body))
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            with suppress(BrokenPipeError, ConnectionResetError):  # the client left, as it should
                state.next()(self)

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def completion(text: str, tokens_in: Any = 10, tokens_out: Any = 20) -> dict[str, Any]:
    """A chat completion as OpenAI's API gives it."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": 30}
    return {
        **{"id": "c1", "object": "chat.completion", "created": 1, "model": "fake-model-1"},
        **{"choices": [choice], "usage": usage},
    }


def says(body: Any, status: int = 200, **headers: str) -> Behaviour:
    """Answer with JSON, or with bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return behave


def talks(text: str) -> Behaviour:
    """Answer with a completion of this text."""
    return says(completion(text))


def endless(part: bytes, pause_s: float = 0.0, status: int = 200) -> Behaviour:
    """Answer without an end."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        while True:
            handler.wfile.write(part)
            handler.wfile.flush()
            time.sleep(pause_s)

    return behave


def endless_headers(pause_s: float) -> Behaviour:
    """Send headers for ever, each in time."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(1000):
            handler.wfile.write(f"X-{number}: a\r\n".encode())
            handler.wfile.flush()
            time.sleep(pause_s)

    return behave


def silent(wait_s: float) -> Behaviour:
    """Answer nothing for a while."""
    return lambda _handler: time.sleep(wait_s)


def hangs_up(_handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without a word."""


class Scripted:
    """A `Chat` that gives the answers that it was made with, then repeats the last."""

    name, host, is_live = "scripted", "", True

    def __init__(self, *answers: Answered | str) -> None:
        self._answers = [Reply(a, 10, 20) if isinstance(a, str) else a for a in answers]
        self.requests: list[Request] = []

    def ask(self, request: Request) -> Answered:
        self.requests.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        pass


def brief_of(source: str, **more: Any) -> Brief:
    """A brief about an H100, with no analysis."""
    shape = {"M": 64, "N": 128}
    return Brief(source=source, name="rms.py", device=devices.find("h100"), shape=shape, **more)


def random_llama(place, chat=None, most=512):
    """A Llama of random weights that reads bytes: it writes noise.

    Args:
        place: a folder for it, which is returned.
        chat: its chat template.
        most: tokens that it reads.
    """
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate(["<end>", *alphabet])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=words, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    tokenizer.chat_template = chat
    tokenizer.save_pretrained(place)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=most,
        eos_token_id=0,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    return place
