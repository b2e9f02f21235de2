"""Names that docs/tutorial.md leaves to its reader."""

import sys

import torch

sys.path.insert(0, "examples/tutorial")
assert torch
