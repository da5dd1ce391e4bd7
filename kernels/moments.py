"""From what acts on spheres, in eleven numbers, to densities of sums; and from sums to motions.

A work item owns a sphere. Torques and stresslets make force dipoles, and gradients make angular
velocities and rates of strain: `parki.dynamics.moments` has the basis.
"""

import pykokkos as pk

REAL = pk.double


@pk.workunit
def make_density(i: int, acts: pk.View2D[REAL], dens: pk.View2D[REAL]):
    """Write the force and the force dipole (12, N) of sphere i by ``acts`` (11, N)."""
    half: REAL = 0.7071067811865476
    sixth: REAL = 0.4082482904638631
    x: REAL = 0.5 * acts[3][i]
    y: REAL = 0.5 * acts[4][i]
    z: REAL = 0.5 * acts[5][i]
    plane: REAL = half * acts[6][i]
    axial: REAL = sixth * acts[7][i]
    xy: REAL = half * acts[8][i]
    xz: REAL = half * acts[9][i]
    yz: REAL = half * acts[10][i]
    dens[0][i] = acts[0][i]
    dens[1][i] = acts[1][i]
    dens[2][i] = acts[2][i]
    dens[3][i] = plane - axial
    dens[4][i] = xy - z
    dens[5][i] = xz + y
    dens[6][i] = xy + z
    dens[7][i] = 0.0 - plane - axial
    dens[8][i] = yz - x
    dens[9][i] = xz - y
    dens[10][i] = yz + x
    dens[11][i] = 2.0 * axial


@pk.workunit
def make_moves(i: int, flow: pk.View2D[REAL], moves: pk.View2D[REAL]):
    """Write the motion (11, N) of sphere i by velocities and gradients ``flow`` (12, N)."""
    half: REAL = 0.7071067811865476
    sixth: REAL = 0.4082482904638631
    moves[0][i] = flow[0][i]
    moves[1][i] = flow[1][i]
    moves[2][i] = flow[2][i]
    moves[3][i] = 0.5 * (flow[10][i] - flow[8][i])
    moves[4][i] = 0.5 * (flow[5][i] - flow[9][i])
    moves[5][i] = 0.5 * (flow[6][i] - flow[4][i])
    moves[6][i] = half * (flow[3][i] - flow[7][i])
    moves[7][i] = sixth * (2.0 * flow[11][i] - flow[3][i] - flow[7][i])
    moves[8][i] = half * (flow[4][i] + flow[6][i])
    moves[9][i] = half * (flow[5][i] + flow[9][i])
    moves[10][i] = half * (flow[8][i] + flow[10][i])
