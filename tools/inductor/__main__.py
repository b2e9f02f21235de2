"""``python -m tools.inductor FOLDER [GRAPH ...]``: write the kernel files of graphs."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from tools.inductor.files import write_kernel_files
from tools.inductor.graphs import GRAPHS

_LOG = logging.getLogger(__name__)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.inductor")
    parser.add_argument("folder", type=Path, help="gets a folder for each template")
    parser.add_argument("graphs", nargs="*", help="names of graphs; all where none is given")
    options = parser.parse_args()
    if unknown := set(options.graphs) - set(GRAPHS):
        parser.error(f"no such graph: {', '.join(sorted(unknown))}; there are: {', '.join(GRAPHS)}")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name, count in sorted(write_kernel_files(options.folder, options.graphs).items()):
        _LOG.info("%6d %s", count, name)


if __name__ == "__main__":
    _main()
