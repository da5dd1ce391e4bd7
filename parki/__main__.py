"""``python -m parki``: the command line, even if the console script is not on the path."""

import sys

from parki.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
