"""Print the pair functions that parki writes for its sums, in the language of kernels.

    python scripts/pair_functions.py stokes_sl        # that of one sum
    python scripts/pair_functions.py --write          # copies of all, in tests/pair_functions

The tests compare with the copies, so that a change of the generator shows as one of formulas.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from parki.ewald.sums import SUMS

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "pair_functions"


def texts() -> dict[str, str]:
    """Return the text of each public sum, by the sum's name without parameters."""
    written = {name.partition("(")[0]: SUMS[name].p2p()["PAIRS"] for name in SUMS}
    return {name: text for name, text in written.items() if "\n" in text}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(texts())}")
    parser.add_argument("--write", action="store_true", help="write the copies of the tests")
    args = parser.parse_args()
    known = texts()
    if lost := [name for name in args.names if name not in known]:
        parser.error(f"no pair function is written for {lost[0]!r}; expected {', '.join(known)}")
    for name in args.names:
        print(known[name])
    for name, text in known.items() if args.write else ():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
