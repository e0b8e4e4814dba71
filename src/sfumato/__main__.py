"""`python -m sfumato`."""

from .cli import main

main()
