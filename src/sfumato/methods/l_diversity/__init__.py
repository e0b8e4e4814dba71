"""l-diversity: generalised quasi-identifiers, diverse sensitive values in every class."""

from .method import METHOD, LDiversity

__all__ = ["METHOD", "LDiversity"]
