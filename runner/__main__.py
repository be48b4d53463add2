"""`python -m runner`: the same as the command `runner`."""

from runner.cli import main

main()
