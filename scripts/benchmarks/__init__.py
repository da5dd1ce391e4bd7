"""The cases of `scripts/benchmark.py`, and what they share.

A case is a module: of this folder, if it is a table or figure of Kosmacher, Du, Bagge and Biros
(2026), of ``papers``, if it compares with another paper or library, and else of ``cases``. It has

- its docstring: a title, what is compared, and what cannot be,
- ``measure(run)``, which returns numbers for JSON,
- perhaps ``tables(record)`` and ``draw(record, file)``, which show them, also from a file,
- perhaps ``missing(on_device)``, which says why it cannot run, and ``CPU_ALONE``.

Without ``tables`` the numbers are rows by title. Cases share

    run.py       the request, clocks, clouds of points
    record.py    the machine, versions, the JSON around the numbers
    show.py      tables and pictures        page.py    the pages in docs
    ceilings.py  bandwidth and arithmetic that the machine reaches
    models.py    operations and bytes of parki's kernels
    near.py      a near field to time       mesh.py    spreading and gathering
    whole.py     whole sums

The paper's numbers are for one NVIDIA H200. Its "nine digits" (E = 1e-9) is a relative error that
close pairs dominate; it corresponds to parki's tolerance 1e-4, and "seven digits" to 1e-1. Its
double layer spreads 12 components, and parki's 4 with the window's gradient, so that parki does
the same task with fewer operations.
"""

FOLDERS: dict[str, tuple[str, ...]] = {
    "benchmarks": (
        *("table3", "table6", "table7", "table8", "table9", "table10"),
        *("figure6", "figure9"),
    ),
    "papers": ("guo", "ljungkvist", "rossinelli", "finufft", "fmm3d", "dmk", "spheres"),
    "cases": (
        *("floor", "radial", "first_sums", "several", "tilted", "derivatives"),
        *("calls", "fading", "trace", "small_sums", "small_steps"),
    ),
}
