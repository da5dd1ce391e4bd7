"""The cut-off of the near field."""

from parki.runtime.scopes import block


@block(reads="least most rr")
def cut(value):
    """Leave a pair beyond the cut-off out of the sum that ``value`` multiplies, if CUT.

    With PARTS it stays where its squared distance is from ``least`` to ``most``.
    """
    if CUT:
        if rr >= 1.0:
            value = 0.0
    if PARTS:
        if rr < least:
            value = 0.0
        if rr >= most:
            value = 0.0
