"""Checks against cheating: replaced functions, work left running, delegated work."""
