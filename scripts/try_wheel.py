"""Installs a wheel into an empty environment and tries it there: the first example, and a check.

python scripts/try_wheel.py dist                  # the wheel in a folder, without any compiler
python scripts/try_wheel.py . --compiler          # a checkout, with the compilers of this system
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", type=Path, help="a wheel, a folder with one, or a checkout")
    parser.add_argument("--compiler", action="store_true", help="let it find a compiler")
    parser.add_argument("--demo", action="store_true", help="run parki demo too")
    arguments = parser.parse_args()
    what = arguments.what
    if what.is_dir() and not (what / "pyproject.toml").exists():
        (what,) = what.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        attempt(what, Path(folder), arguments)


def attempt(what: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """Install into a folder, and run."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    extras = "[cli,compiler]" if arguments.compiler else "[cli]"
    run(programs / "python", "-m", "pip", "install", "--quiet", f"{what.resolve()}{extras}")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if example is None:
        raise SystemExit("README.md has no example")
    (folder / "example.py").write_text(example.group(1), encoding="utf-8")
    environment = {**os.environ, "PARKI_CACHE_DIR": str(folder / "cache"), "PYTHONUTF8": "1"}
    environment.pop("PYTHONPATH", None)
    if not arguments.compiler:
        environment["PATH"] = str(folder / "nothing")
    python = programs / "python"
    run(python, "-m", "parki", "info", cwd=folder, env=environment)
    run(python, "example.py", cwd=folder, env=environment)
    run(python, "-m", "parki", "check", "--quick", cwd=folder, env=environment)
    if arguments.demo:
        run(python, "-m", "parki", "demo", "--no-picture", cwd=folder, env=environment)


def run(*words: object, **how: object) -> None:
    print("+", *words, flush=True)
    if code := subprocess.run([*map(str, words)], check=False, **how).returncode:  # type: ignore[call-overload]
        sys.exit(code)


if __name__ == "__main__":
    main()
