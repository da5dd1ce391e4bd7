"""The sums of P2G: sources at grid points, and values of the grid."""

from kernels.blocks.vector import take_vector
from parki.runtime.scopes import block


@block(reads="dens norms", writes="trace xx xy yy yz zx zz", takes="n0 n1 n2 q0 q1 q2")
def stresslet(at):
    """Take the symmetric tensor S = q n + n q of a source to xx, xy and so on, and q.n to trace."""
    take_vector(q0, q1, q2, dens, PLAIN, at)
    take_vector(n0, n1, n2, norms, 0, at)
    trace: REAL = q0 * n0 + q1 * n1 + q2 * n2
    xx: REAL = 2.0 * q0 * n0
    yy: REAL = 2.0 * q1 * n1
    zz: REAL = 2.0 * q2 * n2
    xy: REAL = q0 * n1 + q1 * n0
    yz: REAL = q1 * n2 + q2 * n1
    zx: REAL = q0 * n2 + q2 * n0


@block(reads="basis box dens norms", writes="trace xx xy xz yx yy yz zx zy zz")
def gradients(at):
    """Take the factors of the window's slopes to xx, xy and so on: a row for each component."""
    if LAYERS:
        stresslet(at)
        yx: REAL = xy
        zy: REAL = yz
        xz: REAL = zx
    if TENSORS > 0:
        xx: REAL = -dens[PLAIN + 0][at]
        xy: REAL = -dens[PLAIN + 1][at]
        xz: REAL = -dens[PLAIN + 2][at]
    if TENSORS > 1:
        yx: REAL = -dens[PLAIN + 3][at]
        yy: REAL = -dens[PLAIN + 4][at]
        yz: REAL = -dens[PLAIN + 5][at]
        zx: REAL = -dens[PLAIN + 6][at]
        zy: REAL = -dens[PLAIN + 7][at]
        zz: REAL = -dens[PLAIN + 8][at]
    if TILTED:
        xx = basis[box][0] * xx + basis[box][1] * xy + basis[box][2] * xz
        xy = basis[box + 1][1] * xy + basis[box + 1][2] * xz
        xz = basis[box + 2][2] * xz
        if VECTORS:
            yx = basis[box][0] * yx + basis[box][1] * yy + basis[box][2] * yz
            yy = basis[box + 1][1] * yy + basis[box + 1][2] * yz
            yz = basis[box + 2][2] * yz
            zx = basis[box][0] * zx + basis[box][1] * zy + basis[box][2] * zz
            zy = basis[box + 1][1] * zy + basis[box + 1][2] * zz
            zz = basis[box + 2][2] * zz


@block(reads="dx dy dz wx wy wz", writes="dx dy dz s0 s1 s2 s3 w", takes="n0 n1 n2 q0 q1 q2")
def add_source(density, normal, first_normal, at):
    """Add to s0 to s3 what a source of window values wx, wy, wz and slopes dx, dy, dz spreads.

    Column ``at`` of ``density`` has its density, and column ``at`` of ``normal`` has its normal,
    from row ``first_normal`` on.
    """
    w: REAL = wx * wy * wz
    if PLAIN > 0:
        s0 += density[0][at] * w
    if PLAIN > 1:
        s1 += density[1][at] * w
    if PLAIN > 2:
        s2 += density[2][at] * w
    if LAYERS:
        dx = dx * wy * wz
        dy = wx * dy * wz
        dz = wx * wy * dz
        take_vector(q0, q1, q2, density, PLAIN, at)
        take_vector(n0, n1, n2, normal, first_normal, at)
        qd: REAL = q0 * dx + q1 * dy + q2 * dz
        nd: REAL = n0 * dx + n1 * dy + n2 * dz
        s0 += q0 * nd + n0 * qd
        s1 += q1 * nd + n1 * qd
        s2 += q2 * nd + n2 * qd
        s3 += (q0 * n0 + q1 * n1 + q2 * n2) * w


@block(reads="g0 g1 g2 grid")
def add_to_grid(v0, v1, v2, v3):
    """Add to the components of the grid at g0, g1, g2, by atomics where threads may meet."""
    pk.atomic_add(grid, [0, g0, g1, g2], v0)
    if PLAIN > 1 or VECTORS:
        pk.atomic_add(grid, [1, g0, g1, g2], v1)
    if PLAIN > 2 or VECTORS:
        pk.atomic_add(grid, [2, g0, g1, g2], v2)
    if LAYERS:
        pk.atomic_add(grid, [3, g0, g1, g2], v3)


@block(reads="cells")
def tile_ahead(axis, at, first, image, tile, last):
    """Find the tile of cell ``at`` (negative for an image) and its cells; move ``at`` on."""
    first: int = at
    while first < 0:
        first = first + cells[axis]
    image: int = at - first
    tile: int = first // TILE
    first = tile * TILE
    last: int = first + TILE - 1
    if last > cells[axis] - 1:
        last = cells[axis] - 1
    at = last + 1 + image
