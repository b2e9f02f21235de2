"""Correctness: test inputs, the exact reference, and how close an output must be."""
