"""Sphinx's configuration: `python -m sphinx -W --keep-going docs docs/_build/html`.

Neither the build nor the site needs a network. Pages are Markdown, written to be read as plain
files too; only `api.md` takes its text from the docstrings. Two things are done here: formulas
become MathML, which browsers draw by themselves, and a page of an example begins with the example's
docstring and ends with its text, and the time that it took.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the docstrings of this checkout, whatever is installed
import parki  # noqa: E402

project = "parki"
author = "The parki developers"
copyright = author
release = version = parki.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "notebook", "results"]  # the notebook is for maintainers alone

# Markdown as GitHub has it: formulas in dollars and in fences, and a place for each heading.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

# Docstrings are numpydoc; names in single backticks become links where there is such a name.
numpydoc_show_class_members = False  # autodoc lists them
default_role = "py:obj"
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"parki {release.partition('+')[0]}"  # without the commit
html_static_path = ["_static"]
html_css_files = ["parki.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .go"  # what a program prints is not copied

# What people search for where the text has other words: the site's search knows these, too.
SEARCHED = {
    "accuracy": "precision, convergence, rounding, digits, reproducible, bitwise",
    "api": "functions, classes, reference, signature, screened Poisson, Debye, Helmholtz, Oseen",
    "bodies": "fibre, fiber, filament, polymer, colloid, rigid multiblob, microswimmer, Kirkwood",
    "boundary_integrals": "BEM, boundary element, Nyström, GMRES, porous medium, Darcy, "
    "vesicle, red blood cell, membrane, droplet, bubble, emulsion, drag coefficient, mobility",
    "boxes": "triclinic, tilted, sheared, simulation cell, unit cell, lattice vectors, LAMMPS, "
    "NPT, barostat",
    "charges": "Madelung, electrostatics, Coulomb, ions, salt, molecular dynamics, PME, SPME, P3M, "
    "dielectric, ASE, slab Ewald, EW2D, EW1D, quasi-2D, nanowire, 1D, "
    "polarisable, virial, pressure tensor, tinfoil",
    "derivatives": "autograd, autodiff, backward, adjoint, machine learning, neural network",
    "distributed": "MPI, cluster, parallel, mpi4py, nodes",
    "dynamics": "Stokesian dynamics, stresslet, resistance, permeability, effective viscosity, "
    "Einstein, hindered settling, sedimentation, colloid, FTS",
    "gauges": "net force, mean flow, net charge, neutralising background, backflow, Poiseuille, "
    "pressure-driven flow",
    "gpu": "CUDA, NVIDIA, CuPy, HIP, ROCm, AMD",
    "install": "pip, conda, wheel, docker, Windows, macOS, Linux, compiler",
    "interoperability": "PyTorch, JAX, DLPack, NumPy, CuPy, Numba, threads, multiprocessing, "
    "ParaView, VTK, HDF5, pickle, checkpoint",
    "mesh": "particle in cell, PIC, gridding, NUFFT, B-spline, immersed boundary",
    "peers": "FMM, fast multipole, migration, OpenMM, GROMACS, ESPResSo, STKFMM, PVFMM",
    "recipes": "OpenMM, LAMMPS, jax-md, HOOMD, PETSc, petsc4py, Julia, filament, fiber, "
    "electrophoresis, diffusiophoresis, Janus, confinement, slab Ewald, wire",
    "suspensions": "RPY, Rotne, Prager, Yamakawa, Faxen, Faxén, colloid, sedimentation, "
    "hydrodynamic interactions, Langevin, diffusion coefficient, polymer, bead spring, Blake, "
    "microfluidic, active matter",
    "theory": "Ewald, Madelung, Faxen, Oseen tensor, Hasimoto, Blake, Brinkman, Darcy, porous, "
    "periodic Stokeslet, permeability, Yukawa, Debye, prolate spheroidal",
    "tuning": "slow, speed up, memory, performance, estimate",
    "walls": "slit, channel, parallel plates, MEMS plates, no slip, confined, electrode, "
    "capacitor, pressure-driven flow",
}

RECORD = json.loads((ROOT / "docs/results/examples.json").read_text(encoding="utf-8"))
COMMAND = re.compile(r"^```sh\n(?:.*\n)*?```\n", re.M)
PROGRAM = """
## The program

{{download}}`{0}.py <../../examples/{0}.py>`{1}

```{{literalinclude}} ../../examples/{0}.py
```
"""


def show_program(_app: Sphinx, page: str, source: list[str]) -> None:
    """Write the page of an example: its docstring, picture and results, time and text."""
    folder, _, name = page.rpartition("/")
    if folder != "examples":
        return
    text = (ROOT / f"examples/{name}.py").read_text(encoding="utf-8")
    problem = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")
    told = [each for each in problem if "python examples/" not in each]  # the page has a command
    words = "\n\n".join(told) + "\n\n"
    took = ""
    if found := RECORD.get(name):
        took = f" took {found['seconds']:.0f} CPU seconds on {found['machine']}."
    program = PROGRAM.format(name, took)
    source[0] = COMMAND.sub(lambda shell: words + shell[0], source[0], count=1) + program


def add_searched(app: Sphinx, tree: nodes.document) -> None:
    """Add the words of a page that are searched for."""
    if words := SEARCHED.get(app.env.docname):
        each = ",".join(
            re.findall(r"[\w-]+", words)
        )  # else the index has "fast multipole" as a word
        tree.insert(0, nodes.meta(name="keywords", content=each))


def write_formula(page: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    block = isinstance(node, nodes.math_block)
    formula = tex2mathml(node.astext(), as_block=block)
    page.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Tell Sphinx."""
    app.connect("source-read", show_program)
    app.connect("doctree-read", add_searched)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
