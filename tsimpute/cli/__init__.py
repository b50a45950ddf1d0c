"""The command line."""

from __future__ import annotations


def main() -> None:
    """What the installed program ``tsimpute`` runs."""
    from tsimpute.cli.commands import main

    main()
