"""How a `solkit.core.Report` is shown: as JSON (`schema`), as a page (`terminal`), as advice."""
