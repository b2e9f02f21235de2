"""Places of the measured sets that SolKit ships.

A checkout has them in ``datasets/data``. An installed SolKit finds them in the package
``solkit_data`` of the distribution ``solkit-data``, which ``packaging/solkit-data`` builds.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from solkit.errors import UnsupportedError

LEARNED_FROM = ("h100", "h200", "h100_triton371", "h200_libraries")
"""The sets that the shipped surrogate learns from."""

_CHECKOUT = Path(__file__).parent / "data"


def folder(request: str) -> Path:
    """Return the folder of the measured sets.

    Args:
        request: what is looked for there, for the error message.

    Raises:
        UnsupportedError: the sets are not installed.
    """
    if _CHECKOUT.is_dir():
        return _CHECKOUT
    spec = importlib.util.find_spec("solkit_data")
    if spec is None or spec.origin is None:
        raise UnsupportedError(
            f"{request}: the measured sets (solkit-data) are not installed; from a checkout of "
            "SolKit: pip install ./packaging/solkit-data"
        )
    return Path(spec.origin).parent
