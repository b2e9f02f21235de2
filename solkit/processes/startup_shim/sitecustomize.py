"""Lets SolKit begin with a program, and with each Python process that it starts.

The folder stands first on PYTHONPATH, so Python imports this file when it starts. It runs the
``sitecustomize`` that it hides, and loads neither torch nor triton: `solkit.processes.startup`
waits until the program does. SolKit alone is found where it is installed: other packages of its
environment are not those of the program, whose Python may be another.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path


class SolKitFinder(importlib.abc.MetaPathFinder):
    """Finds SolKit, and nothing else, in the folder that this file's copy of it is in."""

    def find_spec(
        self,
        name: str,
        path: object = None,  # noqa: ARG002 - as importlib calls it
        target: object = None,  # noqa: ARG002
    ) -> "importlib.machinery.ModuleSpec | None":
        """Return where SolKit is; ``None`` for any other module."""
        if name != "solkit":
            return None
        return importlib.machinery.PathFinder.find_spec(name, [str(PACKAGES)])


PACKAGES = Path(__file__).absolute().parents[3]  # installers may link files from elsewhere


def run_hidden_module() -> None:
    """Run the next ``sitecustomize`` on the path, as Python would have."""
    here = Path(__file__).resolve().parent
    rest = [folder for folder in sys.path if Path(folder).resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, SolKitFinder())
try:
    from solkit.processes.startup import start_with_program
except Exception:  # a Python that SolKit is not made for
    pass
else:
    start_with_program()
run_hidden_module()
