"""The command line: arguments in, rendering out; no arithmetic."""

from .application import main

__all__ = ["main"]
