"""splu: one value drawn from a record's own and those of its decoys."""

from .method import METHOD
from .specification import Splu

__all__ = ["METHOD", "Splu"]
