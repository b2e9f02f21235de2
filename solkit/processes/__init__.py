"""Processes: fast forks, channels, sandboxes, and reliable cleanup."""
