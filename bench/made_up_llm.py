"""An OpenAI-compatible endpoint on 127.0.0.1 whose answers were written for the purpose.

No model is behind it, so what a loop reaches with it says nothing about what a model would reach.
It answers with kernels of SolKit's zoo, which recordings hold, and with hostile and senseless ones
in between, in a fixed order. `bench/other_loops.py` runs it; by hand:

    python bench/made_up_llm.py --port 8123
"""

from __future__ import annotations

import argparse
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from solkit.datasets.kernels import ZOO
from solkit.tuner.evolution.default_params import with_params

SOFTMAX = ZOO / "softmax"

BAD = {
    "no_python": "def kernel(x:\n    return x\n",
    "kills_its_process": "import os\nos._exit(3)\n",
    "turns_back_the_clock": (
        "import torch\ntorch.cuda.Event.elapsed_time = lambda *_: 1e-9\n"
        "def kernel(x):\n    return x\n"
    ),
    "unknown_source": "import torch\ndef kernel(x):\n    return torch.softmax(x, -1)\n",
    "no_kernel": "print('I improved the program.')\n",
    "own_reference": (
        "import torch\ndef reference(x):\n    return x\ndef inputs():\n    return ()\n"
        "def kernel(x):\n    return x\n"
    ),
}
"""Programs that must earn nothing."""

TALK = "I am sorry, I cannot improve this program any further."


def answers() -> Iterator[tuple[str, str]]:
    """Names of answers and their texts, endlessly: what the recording holds, and what it must not.

    The slow kernels come first, so that a loop has something to gain, and the forecast something to
    reject.
    """
    order = (
        *("pair_reduce", "no_python", "four_kernels", "online_block_ptr", "kills_its_process"),
        *("cuda_warp_online", "turns_back_the_clock", "persistent_rows", "split_row", "talk"),
        *("held_chunks", "unknown_source", "rows_tile", "no_kernel", "two_pass_lanes"),
        *("whole_row", "own_reference", "tma_tiles", "unrecorded_parameters", "cuda_block_row"),
        "empty",
    )
    for name in itertools.cycle(order):
        yield name, _answer(name)


def _answer(name: str) -> str:
    if name == "empty":
        return ""
    if name == "talk":
        return TALK
    if name == "unrecorded_parameters":
        text = (SOFTMAX / "whole_row.py").read_text()
        return _fenced(name, with_params(text, "kernel", {"num_warps": 64}))
    text = BAD[name] if name in BAD else (SOFTMAX / f"{name}.py").read_text()
    return _fenced(name, text)


def _fenced(name: str, text: str) -> str:
    """An answer as all loops read it: ShinkaEvolve wants the tags, `solkit evolve` the intent."""
    return (
        f"INTENT: A {name} that was written for a test.\n\n<NAME>\n{name}\n</NAME>\n\n"
        "<DESCRIPTION>\nWritten for a test.\n</DESCRIPTION>\n\n"
        f"<CODE>\n```python\n{text}```\n</CODE>\n"
    )


class Endpoint:
    """The endpoint, in a ``with`` block.

    Args:
        port: to listen on; any free one by default.

    Attributes:
        given: names of the answers so far.
    """

    def __init__(self, port: int = 0) -> None:
        self.given: list[str] = []
        self._answers, self._lock = answers(), threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))

    @property
    def url(self) -> str:
        """What a client calls ``base_url``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Endpoint:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def completion(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The next answer, as ``/v1/chat/completions`` gives it."""
        with self._lock:
            name, text = next(self._answers)
            self.given.append(name)
        return {
            "id": f"made-up-{len(self.given)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": options.get("model", "made-up"),
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            options = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(endpoint.completion(options)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=8123)
    with Endpoint(parser.parse_args().port) as endpoint:
        print(f"answers written for the purpose: {endpoint.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
