# Sourced by test.sh, demo.sh and docs.sh. `set_up EXTRA` leaves the repository's .venv with parki
# installed from this checkout, with that extra, or stops and names the missing package. Nothing is
# installed outside .venv. Sets $root and $venv.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
packages="apt-get install g++, dnf install gcc-c++ or (macOS) xcode-select --install brings one"

say() {
    printf 'parki: %s\n' "$*" >&2
}

stop() {
    say "$@"
    exit 1
}

recent() { # recent PYTHON: is it 3.10 or newer?
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

set_up() { # set_up EXTRA [INSTEAD]: the second extra replaces a missing compiler
    local extra="$1"
    if ! has_compiler; then
        [ -n "${2:-}" ] || stop "a C++ compiler is missing: $packages; or name one in CXX."
        say "no C++ compiler was found; pip brings ziglang in its place (100 MB)."
        extra="$extra,$2"
    fi
    need_venv
    install "$extra"
}

has_compiler() {
    local candidate word words found=""
    for candidate in "${CXX:-}" g++ clang++ c++; do
        [ -n "$candidate" ] || continue
        # CXX may hold flags or a launcher ("ccache g++"), and quotes around a path with blanks.
        words=()
        while IFS= read -r word; do
            words+=("$word")
        done < <(xargs -n 1 printf '%s\n' <<<"$candidate" 2>/dev/null)
        # macOS has a g++ that only asks for the command line tools, so the test is to compile.
        if command -v "${words[0]:-}" >/dev/null 2>&1; then
            found="$candidate"
            if printf '#include <cmath>\nint main() { return 0; }\n' |
                "${words[@]}" -x c++ -fsyntax-only - >/dev/null 2>&1; then
                return
            fi
        fi
        # A requested compiler is used or refused, never replaced.
        [ "$candidate" != "${CXX:-}" ] ||
            stop "CXX is '$CXX', which does not compile C++ here: correct or unset it."
    done
    [ -z "$found" ] || stop "$found is there, but does not compile C++: $packages."
    return 1
}

need_venv() {
    local python candidate found=""
    if [ -e "$venv" ]; then
        recent "$venv/bin/python" && "$venv/bin/python" -c 'import pip' 2>/dev/null && return
        stop "$venv has no Python 3.10 or newer with pip (left half-made?): remove it, run this again."
    fi
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        [ -n "$candidate" ] && recent "$candidate" || continue
        found="$candidate"
        # Debian may have venv without ensurepip, and then cannot make an environment.
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            python="$candidate"
            break
        fi
    done
    if [ -z "$found" ]; then
        say "No Python 3.10 or newer was found (\$PYTHON, python3, python3.10 to python3.14)."
        say "Debian and Ubuntu: apt-get install python3 python3-venv. Fedora: dnf install python3."
        stop "macOS: https://www.python.org/downloads"
    fi
    if [ -z "${python:-}" ]; then
        say "$found cannot make virtual environments: Debian and Ubuntu ship that part apart,"
        stop "in python3-venv. Run: apt-get install python3-venv"
    fi
    say "creating $venv with $("$python" --version)"
    "$python" -m venv "$venv" ||
        stop "that failed; on Debian and Ubuntu the package python3-venv may be missing."
}

install() { # install EXTRA
    # pip runs again only if pyproject.toml has changed, so that a second run needs no network.
    local stamp="$venv/.parki-$1"
    cmp -s "$root/pyproject.toml" "$stamp" && return
    say "installing parki[$1] into $venv (once; needs the network)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[$1]" ||
        stop "pip could not install parki[$1]; its message is above."
    cp "$root/pyproject.toml" "$stamp"
}
