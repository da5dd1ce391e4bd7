"""`Words`: what the calls of a sum say of it, in their docstrings and on the page of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """Words of a sum; formulas have ``r = x - y`` for a target x and a source y.

    Attributes
    ----------
    title : str
        What is summed.
    formula : str
        The velocity or potential.
    density : str
        What a density is.
    variable : str
        The name of a density in examples.
    physical : str
        Physical quantities, by the sum.
    pressure : str
        The pressure, if it is not zero.
    text : tuple of str
        More paragraphs.
    parameters : mapping of str to str
        What each parameter of the sum is: its type, and indented lines of text.
    """

    title: str
    formula: str
    density: str
    variable: str
    physical: str
    pressure: str = ""
    text: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}


MEAN_PRESSURE = (
    "With three periodic axes the pressure leaves out the mean gradient that balances the forces: "
    "the physical pressure is ``p + 8 pi (sum f . x) / V``. See ``docs/gauges.md``."
)
_EPSILON = """
    Width of the blob that takes the place of each source, in the unit of ``options.box``. Zero,
    which is the default, is a point."""
# The parameters of sums whose sources may be blobs, by the order of the symbol: charges and forces.
REGULARISED: dict[int, dict[str, str]] = {
    1: {
        "epsilon": f"""float, array of shape (Ns,), or tuple of two, optional{_EPSILON}
    A Gaussian charge has the density
    ``q exp(-(r / epsilon)^2) / (sqrt(pi) epsilon)^3`` and the potential ``q erf(r / epsilon) / r``,
    which is ``2 q / (sqrt(pi) epsilon)`` at its own centre. An array has a width for each source;
    ``(of_targets, of_sources)`` are numbers or arrays, and the square of the width of a pair is the
    sum of both squares. A Gaussian of standard deviation s has the width ``sqrt(2) s``.""",
        "blob": """{"gaussian", "prolate"}, optional
    Its shape. The prolate blob ends at the distance ``epsilon``, beyond which the potential is that
    of a point.""",
    },
    2: {
        "epsilon": f"""float, optional{_EPSILON} A force on a Gaussian blob moves it as a
    sphere of the radius ``sqrt(pi) epsilon / 3``.""",
        "blob": """{"gaussian", "prolate", "cortez"}, optional
    Its shape. The prolate blob ends at the distance ``epsilon``, beyond which the flow is that
    from a point. The Gaussian blob falls off like ``exp(-(r / epsilon)^2)``, and the blob of Cortez
    like ``(epsilon / r)^7``: it is for moderate tolerances.""",
    },
}
