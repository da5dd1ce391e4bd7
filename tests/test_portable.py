"""Systems other than the one at hand: Windows, faked by hiding what only POSIX has."""

from __future__ import annotations

from small_kernels import run_python

WINDOWS = r"""
    import importlib, os, sys, types
    from pathlib import Path

    def import_all():
        import parki
        root = Path(parki.__file__).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            # Not what needs packages that may be missing.
            if not {"jax", "torch", "distributed", "libmobility", "__main__"} & {*parts}:
                importlib.import_module(".".join(parts).removesuffix(".__init__"))

    import_all()  # with all that parki takes from others, which is then not imported again
    for name in [name for name in sys.modules if name.partition(".")[0] == "parki"]:
        del sys.modules[name]

    for name in ("register_at_fork", "fork", "geteuid", "O_NOFOLLOW", "O_CLOEXEC", "RTLD_NOLOAD",
                 "sched_getaffinity"):
        if hasattr(os, name):
            delattr(os, name)
    for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios"):
        sys.modules[name] = None
    tried = []

    def locking(handle, mode, count):
        tried.append((mode, count))
        if len(tried) == 1:
            raise PermissionError("another process has it")

    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK="at once")
    sys.platform = "win32"
    import_all()

    from parki.runtime import cache, pool, spaces
    from parki.settings import split_command, thread_count

    command = r'"C:\Program Files\LLVM\clang++.exe" -O2'
    assert split_command(command) == [r"C:\Program Files\LLVM\clang++.exe", "-O2"]
    assert thread_count() >= 1
    pool.run_in_threads(lambda item: None, range(3), 2)
    folder = cache.directory()
    folder.chmod(0o777)  # as Windows says of every folder
    assert not cache.why_unusable()
    path = folder / "name.so"
    assert cache.entry("name", lambda: b"one", cache.plain) == b"one"
    assert tried == [("at once", 1)] * 2 and cache.exists("name"), tried

    # A library that is loaded can be renamed, but not replaced.
    path.write_bytes(b"damaged")
    replace = os.replace

    def refuse(source, target):
        if target == path and path.exists():
            raise PermissionError("in use")
        replace(source, target)

    os.replace = refuse
    cache.entry("name", lambda: b"two", cache.plain)
    assert path.read_bytes() == b"two" and cache.exists("name")
    old, = folder.glob("*.tmp")  # swept later
    assert old.read_bytes() == b"damaged"
    """


def test_windows_without_posix(tmp_path):
    status, _, err = run_python(WINDOWS, PARKI_CACHE_DIR=str(tmp_path / "cache"), CXX=None)
    assert status == 0, err
