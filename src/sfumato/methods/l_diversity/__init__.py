"""l-diversity: generalised quasi-identifiers, diverse sensitive values in every class."""

from .method import METHOD
from .specification import LDiversity

__all__ = ["METHOD", "LDiversity"]
