"""Strict reading of a model's answer: a proposal's file and intent, or the reason for refusing it.

An answer has exactly one fenced block of Python, which holds the whole file, and exactly one line
``INTENT: …`` outside of it. Prose around them is ignored. Nothing of it is run, and everything is
limited: size, nesting, and so time.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Union

from solkit.core.syntax import jitted_functions, names_used_by
from solkit.llm.client import without_thought
from solkit.measure.anti_cheating.source_suspicion import suspicions
from solkit.tuner.proposers.protected_problem import Kept, Original, unify_line_ends
from solkit.tuner.proposers.safety import check_safe
from solkit.tuner.proposers.untrusted_source import Reason, RefusedError

MOST_ANSWER_BYTES = 512 << 10
_MOST_INTENT = 200  # characters
_LANGUAGES = {"python", "python3", "py"}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")  # each part in one place: no backtracking


@dataclass(frozen=True)
class Answer:
    """An answer that is a proposal.

    Attributes:
        source: the whole file, with the parent's problem.
        intent: what it is meant to gain.
    """

    source: str
    intent: str


@dataclass(frozen=True)
class Refusal:
    """An answer that is none.

    Attributes:
        reason: its kind.
        why: one sentence.
    """

    reason: Reason
    why: str


class Reader:
    """Reads answers about one kernel file.

    Args:
        source: the parent's file.
        reference: the text of the file with the problem, if that is another.

    Raises:
        RefusedError: the parent cannot be read.
    """

    def __init__(self, source: str, reference: str | None = None) -> None:
        self._original = Original(source, reference)
        self._launched = "LAUNCH" in self._original.names

    @property
    def entry(self) -> str:
        """Description, in words, of what a file must define to be run."""
        if self._original.names & {"Model", "ModelNew"}:
            return "class ModelNew"
        if self._original.is_solution:
            return "def run"
        if self._original.names & {"reference", "inputs", "kernel"} and not self._launched:
            return "def kernel"
        return " or ".join(f"def {name}" for name in sorted(jitted_functions(self._original.tree)))

    def read(self, text: str) -> Union[Answer, Refusal]:
        """Return an answer's file and intent, or why it is refused. It raises for no text."""
        try:
            return self._read_answer(text)
        except RefusedError as error:
            return Refusal(error.reason, error.why)
        except (RecursionError, MemoryError):
            return Refusal(Reason.NESTING, "the code nests too deeply to be read")

    def _read_answer(self, text: str) -> Answer:
        block, rest = _only_block(without_thought(_check_length(text)))
        intent = _read_intent(rest)
        kept = self._original.keep(unify_line_ends(block))
        self._check_entry(kept.tree)
        self._check_kernels(kept)
        check_safe(kept.own, kept.tree, self._original.imports)
        _check_honest(kept.source)
        if self._original.is_unchanged(kept.tree):
            raise RefusedError(Reason.UNCHANGED, "the code is the parent's")
        return Answer(kept.source, intent)

    def _check_entry(self, tree: ast.Module) -> None:
        defined = {
            f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        if self.entry and not defined & set(self.entry.split(" or ")):
            text = f"the file lacks its entry point: `{self.entry}` at the top level"
            raise RefusedError(Reason.NO_ENTRY, text)

    def _check_kernels(self, kept: Kept) -> None:
        kernels = jitted_functions(kept.tree)
        if not kernels:
            raise RefusedError(Reason.NO_JIT, "the file has no function with @triton.jit")
        used = set().union(*(names_used_by(statement) for statement in kept.tree.body))
        if not kernels & used and self.entry in ("def kernel", "def run", "class ModelNew"):
            text = f"nothing launches {', '.join(sorted(kernels))}"
            raise RefusedError(Reason.NO_JIT, text)


def _check_length(text: str) -> str:
    if not text.strip():
        raise RefusedError(Reason.EMPTY, "the answer is empty")
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_ANSWER_BYTES:
        raise RefusedError(Reason.OVERSIZED, f"the answer has {size} bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _only_block(text: str) -> tuple[str, list[str]]:
    """Return the one block, and the lines outside of it."""
    blocks: list[tuple[str, list[str]]] = []
    rest: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line) if len(line) < 100 else None
        if fence:
            closes = match and not match[2].strip() and match[1].startswith(fence)
            fence = "" if closes else fence
            if not closes:
                blocks[-1][1].append(line)
        elif match:
            fence = match[1]
            blocks.append((match[2].strip().lower(), []))
        else:
            rest.append(line)
    return _require_one_block(blocks, bool(fence)), rest


def _require_one_block(blocks: list[tuple[str, list[str]]], is_open: bool) -> str:
    if not blocks:
        raise RefusedError(Reason.NO_CODE, "the answer has no fenced block of Python")
    if len(blocks) > 1:
        text = f"the answer has {len(blocks)} blocks; one with the whole file is expected"
        raise RefusedError(Reason.SEVERAL_BLOCKS, text)
    language, lines = blocks[0]
    if is_open:
        raise RefusedError(Reason.CUT_OFF, "the block does not end: the answer was cut off")
    if language not in _LANGUAGES:
        text = f"the block's language is {language[:20]!r}; expected python"
        raise RefusedError(Reason.WRONG_LANGUAGE, text)
    if not any(line.strip() for line in lines):
        raise RefusedError(Reason.NO_CODE, "the block is empty")
    return "\n".join(lines)


def _read_intent(lines: list[str]) -> str:
    intents = [line.strip() for line in lines if line.strip().startswith("INTENT:")]
    if len(intents) != 1:
        text = f"the answer has {len(intents)} lines that start with INTENT:; one is expected"
        raise RefusedError(Reason.NO_INTENT, text)
    text = " ".join(intents[0].removeprefix("INTENT:").split())
    text = "".join(character for character in text if character.isprintable())[:_MOST_INTENT]
    if not text.strip():
        raise RefusedError(Reason.NO_INTENT, "the intent is empty")
    return text.strip()


def _check_honest(source: str) -> None:
    for finding in suspicions(source, "answer"):
        if finding.is_proof:
            raise RefusedError(Reason.CHEATING, f"{finding.trick}: {finding.evidence}")
