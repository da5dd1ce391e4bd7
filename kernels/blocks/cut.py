"""The cut-off of the near field."""


def cut(value):
    """Leave a pair beyond the cut-off out of the sum that ``value`` multiplies, if CUT."""
    if CUT:
        if rr >= 1.0:
            value = 0.0
