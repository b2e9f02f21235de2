"""Lets SolKit begin with a program, and with each Python process that it starts.

The folder stands first on PYTHONPATH, so Python imports this file when it starts. It runs the
``sitecustomize`` that it hides, and loads neither torch nor triton: `solkit.processes.startup`
waits until the program does.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def run_hidden_module() -> None:
    """Run the next ``sitecustomize`` on the path, as Python would have."""
    here = Path(__file__).resolve().parent
    rest = [folder for folder in sys.path if Path(folder).resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    from solkit.processes.startup import start_with_program
except ImportError:  # a Python of another installation
    pass
else:
    start_with_program()
run_hidden_module()
