"""uniform: keep a sensitive value with probability p, else redraw it from the whole domain."""

from .method import METHOD, UniformPerturbation

__all__ = ["METHOD", "UniformPerturbation"]
