"""The command line: arguments in, rendering out; no arithmetic."""

from .application import main, program

__all__ = ["main", "program"]
