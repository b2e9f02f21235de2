"""A recorded run of a launcher, which gives its launches for other parameters too."""

from solkit.adapters.recipes.standins import stand_in
from solkit.adapters.recipes.steps import Steps, bare
from solkit.adapters.recipes.torch_calls import at_line, following_torch

__all__ = ["Steps", "at_line", "bare", "following_torch", "stand_in"]
