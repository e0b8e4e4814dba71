"""l-diversity: generalised quasi-identifiers, diverse sensitive values in every class."""

from .method import METHOD
from .plan import LDiversity

__all__ = ["METHOD", "LDiversity"]
