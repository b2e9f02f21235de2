"""One core that follows kernels of any language; `front_end` says what a language supplies."""
