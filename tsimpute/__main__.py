"""``python -m tsimpute``."""

from tsimpute.cli.commands import main

main()
