"""``parki`` and ``python -m parki``: the command line, or what to install for it."""

import sys


def main() -> int:
    """Run the command line; return the exit code."""
    try:
        from parki.cli.main import main as run
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "rich":
            raise
        print(
            "parki: the command line needs rich, which is not installed; run "
            "'pip install rich' (sums in Python do not need it)",
            file=sys.stderr,
        )
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
