#!/bin/sh
# Runs small sums of every kind under sanitizers; fails if one of them finds an error.
#   scripts/sanitize.sh          kernels of the CPU: addresses and undefined behaviour (g++ or clang++)
#   scripts/sanitize.sh --gpu [--steps]    kernels of an NVIDIA GPU: compute-sanitizer's memcheck,
#                                racecheck and synccheck; all small sums, or only those that move points
# PYTHON is the interpreter, CXX the compiler. Kernels of the CPU go to a separate cache.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if [ "${1:-}" = --gpu ]; then
    # Compiles all kernels first, so that the tools do not check the compiler.
    sums="small_steps small_sums --quick"
    [ "${2:-}" != --steps ] || sums=small_steps
    "$python" scripts/benchmark.py $sums --space Cuda
    for tool in memcheck racecheck synccheck; do
        echo "== $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 1 --print-limit 20 \
            "$python" scripts/benchmark.py $sums --space Cuda
    done
    exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compiler=${CXX:-g++}
# This comes last on the command line, and so overrides parki's own flags. A division by zero is no
# error in kernels, as coinciding pairs are removed afterwards.
cat > "$folder/cxx" <<WRAPPER
#!/bin/sh
exec $compiler "\$@" -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow \\
    -fno-sanitize-recover=all
WRAPPER
chmod +x "$folder/cxx"
library=$($compiler -print-file-name=libasan.so)
[ -e "$library" ] || library=$($compiler -print-file-name=libclang_rt.asan-$(uname -m).so)

# Python itself leaks by design, and forks to start the compiler.
export CXX="$folder/cxx" PARKI_CACHE_DIR="${PARKI_SANITIZED_CACHE:-$folder/cache}"
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
LD_PRELOAD="$library" "$python" -X faulthandler scripts/benchmark.py small_steps small_sums --space Serial
LD_PRELOAD="$library" "$python" -X faulthandler scripts/benchmark.py small_steps small_sums --quick
echo "nothing found"
