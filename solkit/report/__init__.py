"""Views of a `solkit.core.Report`: as JSON (`schema`), as a page (`terminal`), as advice."""
