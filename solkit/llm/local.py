"""A model on this machine, through `transformers`.

It lives in a process of its own, so the caller imports neither torch nor transformers (decision 2).
The process stays between requests, and ends with `LocalModel.close` or with the caller. A
generation that outlives its limit is killed with its process; the next request starts another.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from solkit.errors import UnsupportedError
from solkit.llm.client import Answered, Failure, Reply, Request, Trouble
from solkit.llm.files import check_path
from solkit.processes.channel import Channel, ClosedError, NonsenseError, pair
from solkit.processes.forkserver import python, python_path

__all__ = ["LocalModel"]

_WORKER = "solkit.llm._generation"
_QUIET = {
    "TOKENIZERS_PARALLELISM": "false",  # it warns when it cannot have it
    "TQDM_DISABLE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
_LOAD_S = 600.0
_GRACE_S = 30.0  # after the generation's own limit: one step of a large model, and decoding


class LocalModel:
    """A `Chat` with a model on this machine.

    Args:
        path: a folder as `save_pretrained` writes it, a GGUF file, or a hub id.
        local_files_only: whether nothing may be downloaded; a hub id must then be in the cache.
        device: ``"cpu"``, ``"cuda"`` ...; ``None`` for a GPU if there is one.
        limit_s: of one generation.

    Raises:
        InputError: `path` looks like a file, but is none.
    """

    is_live = True
    host = ""

    def __init__(
        self,
        path: str,
        *,
        local_files_only: bool = True,
        device: str | None = None,
        limit_s: float = 300.0,
    ) -> None:
        check_path(path)
        self.name = Path(path).stem if Path(path).is_file() else Path(path).name
        self._settings = {"path": path, "local_files_only": local_files_only, "device": device}
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    def ask(self, request: Request) -> Answered:
        """See `Chat.ask`.

        Raises:
            UnsupportedError: transformers is missing, or the model cannot be loaded.
        """
        channel = self._channel or self._started()
        message = {**asdict(request), "limit_s": self._limit_s}
        try:
            channel.send(message, timeout_s=_GRACE_S)
            answer = channel.receive(self._limit_s + _GRACE_S).header
        except TimeoutError:
            self.close()
            return Failure(Trouble.TIME_OUT, f"no text within {self._limit_s + _GRACE_S:g} s")
        except (ClosedError, NonsenseError):
            self.close()
            return Failure(Trouble.SERVER, "the model's process died; out of memory, perhaps")
        return self._answered(answer)

    def close(self) -> None:
        """End the process."""
        channel, self._channel = self._channel, None
        process, self._process = self._process, None
        if channel is not None:
            channel.close()
        if process is not None:
            process.kill()
            process.wait()

    def _answered(self, answer: Mapping[str, Any]) -> Answered:
        if "error" in answer:
            return Failure(Trouble.REFUSED, str(answer["error"]))
        return Reply(
            text=answer["text"],
            tokens_in=answer["tokens_in"],
            tokens_out=answer["tokens_out"],
            model=self.name,
            finish=answer["finish"],
        )

    def _started(self) -> Channel:
        """The channel of a new process with the model loaded."""
        mine, theirs = pair()
        with theirs:
            self._process = subprocess.Popen(
                python(f"from {_WORKER} import main; main({theirs.fileno()})"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # the caller handles Ctrl-C
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                env={**os.environ, **_QUIET, "PYTHONPATH": python_path()},
            )
        self._channel = channel = Channel(mine, trusting=True)
        try:
            channel.send(self._settings, timeout_s=_GRACE_S)
            loaded = channel.receive(_LOAD_S).header
        except (ClosedError, NonsenseError, TimeoutError) as error:
            self.close()
            text = f"{self._settings['path']}: the process that loads the model ended or hangs"
            raise UnsupportedError(text) from error
        if not loaded["ok"]:
            self.close()
            raise UnsupportedError(str(loaded["why"]))
        return channel


def _has_descriptor(stream: Any) -> bool:
    try:
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError, ValueError):
        return False
