"""Evaluation of a model's rankings and forecasts: splits, pools, figures, baselines."""
