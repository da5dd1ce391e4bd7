"""The calls of `parki.distributed`, where they were before version 0.3."""

from parki.errors import old_names
from parki.ewald.sums import SUMS

_calls = {name: name for name in ("Plan", *SUMS.listed)}
__getattr__ = old_names(__name__, "0.4", _calls, "parki.distributed")
