"""A model on this machine, through `transformers`.

It lives in a process of its own, so the caller imports neither torch nor transformers (decision 2).
The process stays between requests, and ends with `LocalModel.close` or with the caller. A
generation that outlives its limit is killed with its process; the next request starts another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from solkit.errors import JobDiedError, UnsupportedError
from solkit.llm.client import Answered, Failure, Reply, Request, Trouble
from solkit.llm.files import check_path
from solkit.processes.host import Host, Program, python_command, python_path

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
        self._host: Host[Program] | None = None

    def ask(self, request: Request) -> Answered:
        """See `Chat.ask`.

        Raises:
            UnsupportedError: transformers is missing, or the model cannot be loaded.
        """
        host, limit_s = self._host or self._start_process(), self._limit_s + _GRACE_S
        try:
            message = {**asdict(request), "limit_s": self._limit_s}
            answer = host.call(message, limit_s=limit_s).header
        except BaseException as error:  # Ctrl-C: a late answer would be the next request's
            self.close()
            if not isinstance(error, JobDiedError):
                raise
            if error.timed_out:
                return Failure(Trouble.TIME_OUT, f"no text within {limit_s:g} s")
            return Failure(Trouble.SERVER, f"the model is gone: {error}")
        return self._parse_answer(answer)

    def close(self) -> None:
        """End the process."""
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def _parse_answer(self, answer: Mapping[str, Any]) -> Answered:
        if "error" in answer:
            return Failure(Trouble.REFUSED, str(answer["error"]))
        return Reply(
            text=answer["text"],
            tokens_in=answer["tokens_in"],
            tokens_out=answer["tokens_out"],
            model=self.name,
            finish=answer["finish"],
        )

    def _start_process(self) -> Host[Program]:
        """Return a new process with the model loaded."""
        env = {**os.environ, **_QUIET, "PYTHONPATH": python_path()}

        def start(descriptor: int) -> Program:
            code = f"from {_WORKER} import main; main({descriptor})"
            return Program(python_command(code), env=env, descriptors=(descriptor,))

        self._host = host = Host(start, "generating")
        try:
            loaded = host.call(self._settings, limit_s=_LOAD_S).header
        except BaseException as error:
            self.close()
            if not isinstance(error, JobDiedError):
                raise
            raise UnsupportedError(f"{self._settings['path']} cannot be loaded: {error}") from error
        if not loaded["ok"]:
            self.close()
            raise UnsupportedError(str(loaded["why"]))
        return host
