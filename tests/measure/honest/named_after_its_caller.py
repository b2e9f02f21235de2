"""Looks one frame up for a name to log, as logging does.

Looks like: reading the expected output from the callers' frames
Problem: gated
"""

import logging
import sys

import torch

log = logging.getLogger(__name__)


def kernel(x, w):
    log.debug("called by %s", sys._getframe(1).f_code.co_name)
    return torch.relu(x * w + 0.5)
