#!/usr/bin/env bash
# Runs a wheel for Linux on aarch64 here, by an emulator: a short check and README's example.
#     scripts/emulate_aarch64.sh dist/*aarch64.whl
# Debian's packages of Python for arm64 and the wheels of NumPy and SciPy go to build/aarch64, which
# later runs use again. Needs Debian or Ubuntu with qemu-user or qemu-user-static.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
wheel="$(realpath "$1")"
home="$root/build/aarch64"
stop() {
    printf 'parki: %s\n' "$*" >&2
    exit 1
}
qemu="$(command -v qemu-aarch64 || command -v qemu-aarch64-static)" ||
    stop "qemu-aarch64 is missing: apt install qemu-user"
command -v apt-get >/dev/null || stop "apt-get is missing: this needs Debian or Ubuntu"

if [ ! -e "$home/done" ]; then
    rm -rf "$home"
    mkdir -p "$home"/{lists/partial,cache/archives/partial,debs}
    apt=(-o APT::Architecture=arm64 -o APT::Architectures=arm64)
    apt+=(-o "Dir::State::Lists=$home/lists" -o "Dir::Cache=$home/cache")
    apt-get "${apt[@]}" update >/dev/null
    version="$(apt-cache "${apt[@]}" depends python3-minimal | sed -n 's/.*Depends: python\(3[.0-9]*\)-minimal/\1/p')"
    (cd "$home/debs" && apt-get "${apt[@]}" download libc6 libexpat1 zlib1g libffi8 libssl3 \
        libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libstdc++6 libgcc-s1 \
        "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib")
    for package in "$home"/debs/*.deb; do dpkg -x "$package" "$home/root"; done
    platforms=(--platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64)
    platforms+=(--platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64)
    python3 -m pip install --quiet --only-binary=:all: --python-version "$version" \
        "${platforms[@]}" --target "$home/site" numpy scipy psutil rich
    echo "$version" > "$home/done"
fi

rm -rf "$home/wheel"
python3 -m zipfile -e "$wheel" "$home/wheel"
sed -n '/^```python$/,/^```$/{/^```/d;p}' "$root/README.md" > "$home/example.py"
python=("$qemu" -cpu max -L "$home/root" "$home/root/usr/bin/python$(cat "$home/done")")
export PATH=/nonexistent PYTHONPATH="$home/wheel:$home/site" PARKI_CACHE_DIR="$home/kernels"
cd "$home"  # else Python would take parki from here
"${python[@]}" -m parki check --quick --space OpenMP
"${python[@]}" "$home/example.py"  # takes longer
