"""Files by name, and names by page, that the documentation leaves to its reader."""
