"""`python -m sfumato`."""

from .cli import program

program()
