"""The methods: the contract, the registry, and one folder for each."""

from .registry import REGISTRY, AnyMethod, method_named, method_of

__all__ = ["REGISTRY", "AnyMethod", "method_named", "method_of"]
