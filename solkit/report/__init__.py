"""How a `solkit.core.Report` is told: as JSON (`schema`), as a page (`terminal`), as advice."""
