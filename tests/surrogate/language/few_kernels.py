"""Made-up kernels whose text says how fast they are, and a table of them."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import torch

from solkit.surrogate.language import training
from solkit.surrogate.language.corpus import distinct_texts
from solkit.surrogate.language.regressor import LanguageRegressor, Shape
from solkit.surrogate.language.tokens import train_tokenizer
from solkit.surrogate.table import Table

FILE = '''
"""Notes that say nothing."""
import torch, triton, triton.language as tl

SPACE = {{"{knob}": [1, 2, 4, 8], "num_warps": [4]}}

def inputs(N=1024, device="cuda"):
    return (torch.randn(N, device=device),)

def reference(x):
    return x * 2

@triton.jit
def {name}(x, out, N, {knob}: tl.constexpr):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    value = tl.load(x + at, mask=at < N)  # a comment
    for step in range({trips}):
        value = tl.{call}(value)
    tl.store(out + at, value, mask=at < N)

def kernel(x, *, {knob}=1, num_warps=4):
    out = torch.empty_like(x)
    {name}[(8,)](x, out, x.numel(), {knob}, num_warps=num_warps)
    return out
'''
TINY = {"width": 32, "layers": 1, "heads": 2, "latents": 2, "bins": 33, "dropout": 0.0}


def source(number, slow, trips="4"):
    call = "erf" if slow else "abs"
    return FILE.format(name=f"work{number}", knob=f"PART{number}", call=call, trips=trips)


def table(kernels=16, seed=0):
    """Kernels that call ``erf`` take four times as long; the rest is noise. Four rows of each."""
    chance = np.random.default_rng(seed)
    kernel = np.repeat(np.arange(kernels), 4)
    slow = kernel % 2 == 1
    rows = len(kernel)
    knobs = np.tile([1, 2, 4, 8], kernels)
    params = [json.dumps({f"PART{k}": int(v), "num_warps": 4}) for k, v in zip(kernel, knobs)]
    values = chance.normal(size=(rows, 2)).astype(np.float32)
    base = 2.0 ** chance.normal(size=rows) * 0.01
    about = {
        "kernel_id": np.char.add("kernel", kernel.astype(str)),
        "problem_id": np.char.add("problem", (kernel // 2).astype(str)),
        "params": np.array(params),
        "device": np.full(rows, "h100-sxm"),
        "family": np.char.add("family", (kernel // 2).astype(str)),
        "kind": np.full(rows, "elementwise"),
        "origin": np.full(rows, "zoo"),
        "implementation": np.full(rows, "x"),
        "triton_version": np.full(rows, "3.6.0"),
        "shape": np.full(rows, '{"N": 1024}'),
    }
    time_ms = base * np.where(slow, 4.0, 1.0) * 2.0 ** (0.02 * chance.normal(size=rows))
    sources = {f"kernel{k}": source(k, k % 2 == 1) for k in range(kernels)}
    nothing = np.full(rows, np.nan)
    names = ("geometry.blocks", "geometry.warps")
    return Table(names, values, time_ms, base, base / 2, about, nothing, sources)


SHAPE = Shape(vocabulary=320, width=32, layers=1, decoder=TINY)


def tiny(seed=0, device="cpu"):
    """A small default model."""
    return LanguageRegressor(shape=SHAPE, seed=seed, device=device)


def saved_backbone(kind, path, **more):
    """A tiny encoder or decoder, with weights drawn at random, as transformers saves it."""
    torch.manual_seed(0)
    small = {"vocab_size": 320, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48}
    import transformers  # takes a second

    config = transformers.AutoConfig.for_model(kind, **small | {"num_attention_heads": 2} | more)
    transformers.AutoModel.from_config(config).save_pretrained(path)
    train_tokenizer(distinct_texts(table(8))[0], 320).save_pretrained(path)
    return path


@contextlib.contextmanager
def interrupted(step):
    """Learning is interrupted at a step, and kept after each fourth one."""
    taught = training._Learner._learn_step

    def stopping(learner, rows, at):
        if at == step:
            raise KeyboardInterrupt
        return taught(learner, rows, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_KEPT_EVERY", 4)
        patch.setattr(training._Learner, "_learn_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            yield
