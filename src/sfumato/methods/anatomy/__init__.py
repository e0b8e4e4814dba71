"""anatomy: every true value, inside a group of l records whose values all differ."""

from .method import METHOD, Anatomy

__all__ = ["METHOD", "Anatomy"]
