"""How well a model ranks and forecasts: splits, pools, figures, baselines."""
