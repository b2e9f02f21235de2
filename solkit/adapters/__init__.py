"""One module per third-party inside that SolKit leans on: a new release breaks one file."""
