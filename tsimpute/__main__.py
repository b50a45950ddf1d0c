"""``python -m tsimpute``."""

from tsimpute.cli import main

main()
