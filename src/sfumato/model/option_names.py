"""How the fields of a method's specification are typed on the command line."""

from __future__ import annotations

RENAMED = {"keep": "keep-probability"}  # --keep is a role


def option_name(field: str) -> str:
    """A field of a specification as it is typed."""
    return f"--{RENAMED.get(field, field.replace('_', '-'))}"
