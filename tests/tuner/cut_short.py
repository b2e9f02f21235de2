"""Variants judged by a parent of which a program or two ran; in a process that interprets."""

from __future__ import annotations

from solkit.tuner import _interpreter_trial as trial


def judge(parent: str, variant: str) -> tuple[str, str]:
    """Judge a variant at sizes at which the parent had no time."""
    usual = trial._launch_limit_s
    trial.triton_interpreter.install()
    trial._launch_limit_s = lambda *_: 0.0
    _, saved = trial.prepare(parent, parent, {}, {"N": 7})
    trial._launch_limit_s = usual
    return trial.judge(parent, variant, [saved], parent)
