"""Names that docs/other_loops.md leaves to its reader."""

model, prompts = "a model", []


def GRPOTrainer(model, *, reward_funcs, **more):  # noqa: N802 - TRL's name
    """A stand-in for TRL's trainer, which asks for rewards."""
    assert callable(reward_funcs)
    return model, more
