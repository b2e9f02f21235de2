"""The surrogate inside other tuners: Triton's autotuner and Optuna. See docs/integrations.md."""
