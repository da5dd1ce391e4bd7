"""What a user chooses.

ewald_options    `EwaldOptions`: box, periodicity, tolerance, and what else users have
in_box           what follows from their box; mirrored has boxes with the images of walls
expert           `Expert`: what only who studies the method chooses; keywords of earlier versions,
                 those that people guess, and unknown ones
"""

from parki.ewald.options.box import MOST_SLENDER as MOST_SLENDER
from parki.ewald.options.box import PERIODICITIES as PERIODICITIES
from parki.ewald.options.ewald_options import CHOICES as CHOICES
from parki.ewald.options.ewald_options import LARGEST_TOLERANCE as LARGEST_TOLERANCE
from parki.ewald.options.ewald_options import MOST_POINTS as MOST_POINTS
from parki.ewald.options.ewald_options import MOST_RECORDED as MOST_RECORDED
from parki.ewald.options.ewald_options import SMALLEST_TOLERANCE as SMALLEST_TOLERANCE
from parki.ewald.options.ewald_options import EwaldOptions as EwaldOptions
