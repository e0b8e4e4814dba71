"""What a field of a specification says of itself, for the command line and the reference: a sentence and an example."""

from __future__ import annotations


def told(says: str, example: str, **more: object) -> dict[str, object]:
    """The metadata of a field; `python_only=True` keeps it from the command line, roles files and the studio."""
    return {"help": says, "example": example, **more}


RHO1 = told("what a reader may believe of a value before, at most", "1/5")
RHO2 = told("what she may believe of it after, at most", "1/2")
