"""splu: one value drawn from a record's own and those of its decoys."""

from .method import METHOD
from .plan import Splu

__all__ = ["METHOD", "Splu"]
