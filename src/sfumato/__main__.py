"""`python -m sfumato`."""

from .cli.application import main

main()
