"""``phi = M q``: a potential of charges."""

from parki.runtime.scopes import block


@block(reads="hat im m re", writes="hat")
def multiply():
    """Multiply a mode by the symbol."""
    hat[0][re] = hat[0][re] * m
    hat[0][im] = hat[0][im] * m
