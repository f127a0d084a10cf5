"""`python -m timebell` is the same as `timebell`."""

from timebell.cli import main

main()
