"""target-distribution: inside each group the sensitive values look like a chosen distribution."""

from .method import METHOD, TargetDistribution

__all__ = ["METHOD", "TargetDistribution"]
