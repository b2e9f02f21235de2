"""The process that holds a local model: `solkit.llm.local` starts it.

It reads requests from a socket and answers each. Only here are torch and transformers imported.
"""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from solkit.extras import translated
from solkit.llm.files import read_once, source_of
from solkit.processes.channel import Channel, ClosedError

_MOST_SEED = 2**63


def main(descriptor: int) -> None:
    """Serve until the other end closes."""
    channel = Channel.of(descriptor, trusting=True)
    try:
        settings = channel.receive().header
        answer = _load_model(settings)
        channel.send({"ok": isinstance(answer, _Model), "why": str(answer)})
        while isinstance(answer, _Model):
            channel.send(_generate_or_error(answer, channel.receive().header))
    except ClosedError:
        return


def _generate_or_error(model: _Model, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return model.generate(request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def _load_model(settings: dict[str, Any]) -> _Model | str:
    """Return the model, or why there is none."""
    if settings["local_files_only"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        transformers = importlib.import_module("transformers")
        transformers.logging.set_verbosity_error()
        return _Model(settings, transformers)
    except ImportError as error:
        why = f"{settings['path']} needs pip install 'solkit[local-llm]': {error}"
        return str(translated(error, "local-llm") or why)
    except Exception as error:
        return f"{settings['path']} cannot be loaded: {type(error).__name__}: {error}"[:1000]


class _Model:
    """A causal language model and its tokenizer."""

    def __init__(self, settings: dict[str, Any], transformers: Any) -> None:
        import torch

        path, local_files_only = settings["path"], settings["local_files_only"]
        name, options = source_of(path, local_files_only=local_files_only)
        with read_once(path):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                name, dtype="auto", **options
            )
        self._model.eval()
        self._criteria = transformers.StoppingCriteriaList
        device = settings["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model.to(device)

    def __str__(self) -> str:
        return str(type(self._model).__name__)

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request: its text, tokens, and why it ended."""
        import torch

        ids = self._encode_messages(request["messages"]).to(self._model.device)
        room = self._remaining_context(ids.shape[1])
        if room < 1:
            return {"error": f"the prompt has {ids.shape[1]} tokens, more than the model reads"}
        clock = _Clock(request["limit_s"])
        torch.manual_seed(request["seed"] % _MOST_SEED)
        is_sampled = request["temperature"] > 0
        with torch.inference_mode():
            generated = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=min(request["max_tokens"], room),
                do_sample=is_sampled,
                **({"temperature": request["temperature"]} if is_sampled else {}),
                stopping_criteria=self._criteria([clock]),
                pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
            )
        new = generated[0, ids.shape[1] :]
        return {
            "text": self._tokenizer.decode(new, skip_special_tokens=True),
            "tokens_in": int(ids.shape[1]),
            "tokens_out": int(new.shape[0]),
            "finish": "time" if clock.is_over else self._finish_reason(new, request["max_tokens"]),
        }

    def _finish_reason(self, new: Any, most: int) -> str:
        return "length" if new.shape[0] >= most else "stop"

    def _remaining_context(self, used: int) -> int:
        context = getattr(self._model.config, "max_position_embeddings", None) or 1 << 20
        return int(context) - used

    def _encode_messages(self, messages: list[dict[str, str]]) -> Any:
        """Token ids: by the tokenizer's chat template, or as plain text if it has none."""
        if self._tokenizer.chat_template:
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            return self._tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
        text = "\n\n".join(message["content"] for message in messages) + "\n\n"
        return self._tokenizer(text, return_tensors="pt").input_ids


class _Clock:
    """Stops a generation at a time."""

    def __init__(self, limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self.is_over = False

    def __call__(self, ids: Any, scores: Any, **_rest: Any) -> Any:
        import torch

        del scores
        self.is_over = self.is_over or time.monotonic() > self._deadline
        return torch.full((ids.shape[0],), self.is_over, dtype=torch.bool, device=ids.device)
