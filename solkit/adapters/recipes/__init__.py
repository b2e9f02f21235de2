"""One run of a launcher, recorded so that its launches can be had for other parameters."""

from solkit.adapters.recipes.standins import stand_in
from solkit.adapters.recipes.steps import Steps, bare
from solkit.adapters.recipes.torch_calls import following_torch

__all__ = ["Steps", "bare", "following_torch", "stand_in"]
