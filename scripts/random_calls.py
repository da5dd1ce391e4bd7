"""Call every public function with random arguments: a right number or a ParkiError, nothing else.

    python scripts/random_calls.py [--cases 10000] [--seed 0] [--room ROOM ...] [--only CASE ...]

Most cases have valid arguments, of which one or two are replaced by odd values: other shapes,
dtypes and types, NaN, infinity, huge and tiny numbers. A case fails if it raises anything but a
`ParkiError`, gives a warning that is not parki's, takes too long or too much memory, or returns
numbers that are not finite or miss the promise; sums are compared with `parki.reference`. What
is built on sums obeys laws, such as linearity, other units, and closed forms. A room is a kind of
cases; all take turns, unless some are named. The cases come from ``tests/helpers/random_*.py``, and
run in worker processes. A line for each failure says how to repeat it.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/helpers")]

import degrees  # noqa: E402
from random_case import Case, outcome  # noqa: E402
from random_rooms import ROOMS  # noqa: E402


def work(
    pipe: Any, seed: int, rooms: list[str], space: str, library: str, gigabytes: float
) -> None:
    """Make the calls that the other end asks for."""
    degrees.few_degrees()
    if library:
        Case.use(library)
    if space == "CPU":
        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2)
    pipe.send(("", "ready"))  # what was imported does not count
    with contextlib.suppress(EOFError):  # when the other end is gone
        while True:
            number = pipe.recv()
            pipe.send(outcome(seed, number, space, ROOMS[rooms[number % len(rooms)]]))


class Worker:
    """A process that makes calls, and is started again after one that does not end."""

    def __init__(self, *given: Any) -> None:
        self.given, self.process = given, None

    def outcome(self, number: int, seconds: float) -> tuple[str, str]:
        """Return what became of a case."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=work, args=(other, *self.given), daemon=True)
            self.process.start()
            other.close()
            self.pipe.recv()
        try:
            self.pipe.send(number)
            if self.pipe.poll(seconds):
                return self.pipe.recv()
            what = f"no end after {seconds:g} s"
        except (EOFError, OSError):
            what = "the process died"
        self.process.kill()
        self.process.join()
        self.process = None
        return "?", what


def main() -> None:
    """Make the calls, and print those that failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--space", default="CPU")
    parser.add_argument(
        "--library", default="", choices=("torch", "jax"), help="sums of its module"
    )
    parser.add_argument("--room", nargs="+", default=[*ROOMS], choices=[*ROOMS])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a case")
    parser.add_argument("--gigabytes", type=float, default=6.0, help="memory of a process")
    parser.add_argument("--only", type=int, nargs="+", help="cases to make here, with tracebacks")
    args = parser.parse_args()
    rooms = ["sums"] if args.library else args.room
    if args.only:
        degrees.few_degrees()
        if args.library:
            Case.use(args.library)
        for number in args.only:
            case = ROOMS[rooms[number % len(rooms)]](args.seed, number, args.space)
            try:
                case.run()
            finally:
                print(f"{number}: {case.name}({', '.join(case.said)})")
        return
    numbers = iter(range(args.first, args.first + args.cases))
    counts, lock = Counter[tuple[str, str]](), threading.Lock()
    again = f"--seed {args.seed}" + f" --library {args.library}" * bool(args.library)
    again += f" --room {' '.join(rooms)}" * (rooms != [*ROOMS])

    def make() -> None:
        worker = Worker(args.seed, rooms, args.space, args.library, args.gigabytes)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            what, found = worker.outcome(number, args.seconds)
            with lock:
                counts[rooms[number % len(rooms)], "failed" if what else found] += 1
                if what:
                    print(f"{again} --only {number}: {what}: {found}", flush=True)

    threads = [threading.Thread(target=make) for _ in range(args.workers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    totals = Counter[str]()
    for room in rooms:
        became = {name: n for (each, name), n in sorted(counts.items()) if each == room}
        totals.update(became)
        print(f"{room}:", ", ".join(f"{n} {name}" for name, n in became.items()))
    print("all:", ", ".join(f"{n} {name}" for name, n in sorted(totals.items())))
    sys.exit(1 if totals["failed"] else 0)


if __name__ == "__main__":
    main()
