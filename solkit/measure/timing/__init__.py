"""Timing: timers, protocols, sampling, statistics, clocks."""
