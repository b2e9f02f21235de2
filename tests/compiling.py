"""A server of jobs that has loaded torch's compiler: see the fixture `compiler_loaded`."""

from __future__ import annotations

from solkit.analysis import worker


def warm_up() -> None:
    """Load what all jobs need, and what compiles references."""
    worker.warm_up()
    from solkit.adapters import inductor_program  # noqa: F401
