"""small-domain: sub-tables with few sensitive values, each perturbed by itself."""

from .method import METHOD, SmallDomain

__all__ = ["METHOD", "SmallDomain"]
