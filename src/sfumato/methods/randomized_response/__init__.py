"""randomized-response: every chosen column keeps its value with probability p, else shows another one."""

from .method import METHOD
from .plan import RandomizedResponse

__all__ = ["METHOD", "RandomizedResponse"]
