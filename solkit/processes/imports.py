"""Imports that other threads of a process are in the middle of."""

from __future__ import annotations

import threading
from importlib import _bootstrap


def other_thread_imports() -> bool:
    """Tell whether another thread imports a module right now.

    A fork inherits that module's lock, and no thread that would release it: importing the module
    there waits for ever. Python has no public name for the locks; where they are elsewhere, no
    import is seen.
    """
    locks = [reference() for reference in list(getattr(_bootstrap, "_module_locks", {}).values())]
    owners = {getattr(lock, "owner", None) for lock in locks}
    return bool(owners - {None, threading.get_ident()})
