"""Singular parts of the radial functions of screened charges and of Brinkman's equation.

With z = kappa r and the reverse Bessel polynomials theta, ``exp(-kappa r) / r`` has the functions
``b_n = (-1)^n theta_n exp(-z) / r^(2 n + 1)``. Each is as accurate as its size, however small: the
difference of 1/r and a polynomial would round as 1/r does. Brinkman's equation has others:

With z = alpha r they are ``b_n = (-1)^n shape_n / r^(2 n + 1)``, where ::

    shape_0 = 2 (1 - (1 + z) exp(-z)) / z^2,   1 for z = 0
    shape_n = (2 n + 1) shape_(n-1) - 2 theta_(n-1) exp(-z)

with the reverse Bessel polynomials theta. The recurrence keeps all digits for any z.
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


@block(reads="r", writes="fallen shape0 squared theta0 theta1")
def fall(table):
    """Declare the same, and shape_0 of Brinkman's equation."""
    fade(table)
    # For small z its series, which keeps the digits that the difference loses.
    minus: REAL = 0.0 - pk.fmin(screened, 1.0)
    shape0: REAL = 5.310530369319317e-15
    shape0 = shape0 * minus + 8.996663213905666e-14
    shape0 = shape0 * minus + 1.4338431997162156e-12
    shape0 = shape0 * minus + 2.1412058449095486e-11
    shape0 = shape0 * minus + 2.9823938554097286e-10
    shape0 = shape0 * minus + 3.854170520837187e-09
    shape0 = shape0 * minus + 4.592886537330982e-08
    shape0 = shape0 * minus + 5.010421677088344e-07
    shape0 = shape0 * minus + 4.96031746031746e-06
    shape0 = shape0 * minus + 4.409171075837743e-05
    shape0 = shape0 * minus + 0.00034722222222222224
    shape0 = shape0 * minus + 0.002380952380952381
    shape0 = shape0 * minus + 0.013888888888888888
    shape0 = shape0 * minus + 0.06666666666666667
    shape0 = shape0 * minus + 0.25
    shape0 = shape0 * minus + 0.6666666666666666
    shape0 = shape0 * minus + 1.0
    if screened > 1.0:
        shape0 = 2.0 * (1.0 - theta1 * fallen) / squared
