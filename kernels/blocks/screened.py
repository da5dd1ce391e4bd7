"""Singular parts of the radial functions of screened charges and of Brinkman's equation.

With z = kappa r and the reverse Bessel polynomials theta, ``exp(-kappa r) / r`` has the functions
``b_n = (-1)^n theta_n exp(-z) / r^(2 n + 1)``. Each is as accurate as its size, however small: the
difference of 1/r and a polynomial would round as 1/r does. Brinkman's equation has others:

With z = alpha r they are ``b_n = (-1)^n shape_n / r^(2 n + 1)``, where ::

    shape_n = 2 ((2 n + 1)!! - theta_(n+1) exp(-z)) / z^2,   (2 n - 1)!! for z = 0
    shape_(n-1) = (shape_n + 2 theta_(n-1) exp(-z)) / (2 n + 1)

From the highest one down all terms add up, so that each keeps its digits. Upwards each would have
several times the rounding of the one before, and fields of close pairs cancel it worse.
"""

from parki.runtime.scopes import block


@block(reads="r", writes="fallen screened squared theta0 theta1")
def fade(table):
    """Declare what follows from alpha or kappa times r_c, which is the last number of ``table``."""
    screened: REAL = table[DEGREE] * r
    squared: REAL = screened * screened
    fallen: REAL = pk.exp(0.0 - screened)
    theta0: REAL = 1.0
    theta1: REAL = 1.0 + screened


@block(reads="r", writes="shape0 shape1 shape2 shape3 shape4")
def fall(table):
    """Declare shape_0 to shape_4 of Brinkman's equation."""
    screened: REAL = table[DEGREE] * r
    # Beyond this the exponential adds nothing, and powers would overflow.
    faded: REAL = pk.fmin(screened, 100.0)
    squared: REAL = faded * faded
    fallen: REAL = 2.0 * pk.exp(0.0 - faded)
    theta1: REAL = 1.0 + faded
    theta2: REAL = 3.0 * theta1 + squared
    theta3: REAL = 5.0 * theta2 + squared * theta1
    # For small z its polynomial on [0, 3], which keeps the digits that the difference loses.
    place: REAL = pk.fmin(screened, 3.0) * 0.6666666666666666 - 1.0
    shape4: REAL = -1.1492602758698444e-09
    shape4 = shape4 * place + 9.395883414443135e-09
    shape4 = shape4 * place - 6.446850882139184e-08
    shape4 = shape4 * place + 4.167872570611787e-07
    shape4 = shape4 * place - 2.323772260764592e-06
    shape4 = shape4 * place + 1.0555973900940373e-05
    shape4 = shape4 * place - 3.477853024629387e-05
    shape4 = shape4 * place + 4.816803857322138e-05
    shape4 = shape4 * place + 0.0002761334048058618
    shape4 = shape4 * place - 0.002104718815725885
    shape4 = shape4 * place + 0.004802012840702775
    shape4 = shape4 * place + 0.014827084935909597
    shape4 = shape4 * place - 0.12390357912744415
    shape4 = shape4 * place + 0.1120779547638879
    shape4 = shape4 * place + 1.6894520225008178
    shape4 = shape4 * place - 5.338342837396493
    shape4 = shape4 * place - 14.64015846217542
    shape4 = shape4 * place + 97.14391432583999
    if screened > 3.0:
        theta4: REAL = 7.0 * theta3 + squared * theta2
        theta5: REAL = 9.0 * theta4 + squared * theta3
        shape4 = (1890.0 - theta5 * fallen) / (screened * screened)
    shape3: REAL = (shape4 + theta3 * fallen) * 0.1111111111111111
    shape2: REAL = (shape3 + theta2 * fallen) * 0.14285714285714285
    shape1: REAL = (shape2 + theta1 * fallen) * 0.2
    shape0: REAL = (shape1 + fallen) * 0.3333333333333333
