"""The tables and figures of Kosmacher, Du, Bagge and Biros (2026), measured again with parki.

One module for each table or figure says what is compared and what cannot be; ``measure`` returns
numbers for JSON, and ``tables`` and ``draw`` show them, also from a file. Common modules:

    run.py       the request, clocks, clouds of points
    record.py    the machine, versions, the JSON around the numbers
    ceilings.py  bandwidth and arithmetic that the machine reaches
    models.py    operations and bytes of parki's kernels
    near.py      a near field to time      mesh.py   spreading and gathering
    whole.py     whole sums                show.py   tables and pictures
    page.py      the page in docs

The paper's numbers are for one NVIDIA H200. Its "nine digits" (E = 1e-9) is a relative error that
close pairs dominate; it corresponds to parki's tolerance 1e-4, and "seven digits" to 1e-1. Its
double layer spreads 12 components, and parki's 4 with the window's gradient, so that parki does
the same task with fewer operations.
"""
