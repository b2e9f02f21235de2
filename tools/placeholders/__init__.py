"""What the documentation leaves to its reader: files by name, and names by page."""
