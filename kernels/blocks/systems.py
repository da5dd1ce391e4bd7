"""Which system a point belongs to."""

from parki.runtime.scopes import block


@block(reads="offsets systems", writes="system")
def find_system(point):
    """Find the system of a point: system s has ``offsets[s]`` to ``offsets[s + 1] - 1``."""
    system: int = 0
    beyond: int = systems
    while beyond - system > 1:
        middle: int = (system + beyond) // 2
        if offsets[middle] <= point:
            system = middle
        else:
            beyond = middle
