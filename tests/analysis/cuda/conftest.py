"""The compiler of CUDA C++ that tests need."""

from __future__ import annotations

import pytest

from solkit.adapters.nvrtc import Toolkit, find_toolkit
from solkit.errors import UnsupportedError


@pytest.fixture(scope="session")
def compiler() -> Toolkit:
    """NVRTC's files; without them tests skip."""
    try:
        return find_toolkit()
    except UnsupportedError as error:
        pytest.skip(str(error))
