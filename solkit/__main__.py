"""``python -m solkit``: the command line."""

from solkit.cli import main

main()
