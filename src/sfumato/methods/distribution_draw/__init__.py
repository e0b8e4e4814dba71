"""distribution-draw: every record draws from the overall distribution; a baseline."""

from .method import METHOD, DistributionDraw

__all__ = ["METHOD", "DistributionDraw"]
