"""TRL's GRPO lets a tiny model choose the parameters of a kernel, on a recorded H100.

    pip install trl && python examples/grpo/train.py

The model has 100,000 random parameters and learns from rewards alone: nothing is downloaded, and no
GPU is needed. An answer is three digits: which block size, which number of pixels a program, and
which number of warps. Choices that were never recorded earn 0.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset
from solkit.core import Configuration
from solkit.datasets.kernels import ZOO
from solkit.datasets.store import shipped
from solkit.integrations.evaluator import Evaluator
from solkit.integrations.rl import as_reward_function

FAMILY = ZOO / "conv2d_depthwise"
KERNEL = FAMILY / "nine_loads.py"
SHAPE = {"B": 8, "C": 1152, "H": 7, "W": 7, "dtype": "bfloat16"}
SPACE = {
    "BLOCK_C": [16, 32, 64, 128, 256],
    "PIXELS": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8],
}
DIGITS = max(map(len, SPACE.values()))
SPECIAL = ("<pad>", "<end>", "choose")


def tokenizer() -> PreTrainedTokenizerFast:
    """A token a digit."""
    words = [*SPECIAL, *map(str, range(DIGITS))]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def model(vocabulary: int) -> GPT2LMHeadModel:
    """A model with random weights."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary,
            n_positions=16,
            n_embd=64,
            n_layer=2,
            n_head=2,
            bos_token_id=1,
            eos_token_id=1,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def chosen(text: str) -> Configuration | None:
    """The candidate that an answer means."""
    places = [int(each) for each in re.findall(r"\d", text)]
    if len(places) != len(SPACE):
        return None
    params = {}
    for place, (name, values) in zip(places, SPACE.items()):
        if place >= len(values):
            return None
        params[name] = values[place]
    return Configuration(str(KERNEL), "kernel", params=params)


def trained(evaluator: Evaluator, steps: int, seed: int) -> list[float]:
    """Mean rewards, step by step."""
    torch.manual_seed(seed)
    words = tokenizer()
    trainer = GRPOTrainer(
        model=model(len(words)),
        reward_funcs=as_reward_function(evaluator, chosen),
        processing_class=words,
        train_dataset=Dataset.from_dict({"prompt": ["choose"] * 64}),
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),  # nothing is saved
            max_steps=steps,
            per_device_train_batch_size=32,
            num_generations=32,
            max_completion_length=len(SPACE),
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            beta=0.0,
            temperature=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            seed=seed,
        ),
    )
    trainer.train()
    return [each["reward"] for each in trainer.state.log_history if "reward" in each]


def main() -> None:
    """Train, and print the rewards of the first and the last ten steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    store = shipped("h100").folder
    with Evaluator.recorded(store, FAMILY / "problem.py", shape=SHAPE) as evaluator:
        rewards = trained(evaluator, options.steps, options.seed)
        best_ms = evaluator.best_ms
    print(f"mean reward of the first 10 steps: {statistics.mean(rewards[:10]):.3f}")
    print(f"mean reward of the last 10 steps:  {statistics.mean(rewards[-10:]):.3f}")
    print(f"best time found: {best_ms:.4g} ms")


if __name__ == "__main__":
    main()
