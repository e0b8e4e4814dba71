"""subset-response: publish a set of values, from a published list, in place of the value."""

from .method import METHOD, SubsetResponse

__all__ = ["METHOD", "SubsetResponse"]
