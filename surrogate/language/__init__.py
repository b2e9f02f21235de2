"""The language regressor: it reads the kernel's text beside its numbers.

::

    text ─► tokens ─► network (encoder: text; decoder: numbers) ─► regressor
    numbers ─────────────▲                        training ──────────▲
"""
