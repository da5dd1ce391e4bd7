// The run-time library of translated kernels on a device: CUDA through NVRTC, HIP through hipRTC.
// One work item is an index of a guarded thread, or a team: a block of (vector, team) threads.
#define PK_RESTRICT __restrict__
#define PK_FUNCTION static __device__ __forceinline__
#define PK_WORKUNIT static __device__ __forceinline__
#define PK_INLINE  // as bodies are by themselves
#define PK_PRAGMA(x) _Pragma(#x)
#define PK_UNROLL PK_PRAGMA(unroll)
#define PK_ELEMENTWISE PK_UNROLL
#define PK_SIMD(...)
#ifdef __HIP_PLATFORM_AMD__
#define PK_SHUFFLE(value, offset) __shfl_xor(value, offset)
#define PK_SYNC() (__threadfence_block(), __builtin_amdgcn_wave_barrier())
#else
#define PK_SHUFFLE(value, offset) __shfl_xor_sync(pk::lanes(), value, offset)
#define PK_SYNC() __syncwarp(pk::lanes())
#endif

namespace pk {

static __device__ __forceinline__ double sqrt(double x) { return ::sqrt(x); }
static __device__ __forceinline__ float sqrt(float x) { return ::sqrtf(x); }
#ifdef __HIP_PLATFORM_AMD__
static __device__ __forceinline__ double rsqrt(double x) { return ::rsqrt(x); }
#else
// For normal numbers only. The library also handles others, and later statements of a loop would wait
// for that.
static __device__ __forceinline__ double rsqrt(double x) {
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double e = ::fma(x, -(y * y), 1.0);
  return ::fma(::fma(e, 0.375, 0.5), y * e, y);
}
#endif
static __device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
static __device__ __forceinline__ double floor(double x) { return ::floor(x); }
static __device__ __forceinline__ float floor(float x) { return ::floorf(x); }
static __device__ __forceinline__ double fabs(double x) { return ::fabs(x); }
static __device__ __forceinline__ float fabs(float x) { return ::fabsf(x); }
static __device__ __forceinline__ double exp(double x) { return ::exp(x); }
static __device__ __forceinline__ float exp(float x) { return ::expf(x); }
static __device__ __forceinline__ double erf(double x) { return ::erf(x); }
static __device__ __forceinline__ float erf(float x) { return ::erff(x); }
static __device__ __forceinline__ double erfc(double x) { return ::erfc(x); }
static __device__ __forceinline__ float erfc(float x) { return ::erfcf(x); }
static __device__ __forceinline__ double fmin(double a, double b) { return ::fmin(a, b); }
static __device__ __forceinline__ float fmin(float a, float b) { return ::fminf(a, b); }
static __device__ __forceinline__ double fmax(double a, double b) { return ::fmax(a, b); }
static __device__ __forceinline__ float fmax(float a, float b) { return ::fmaxf(a, b); }

template <class T>
static __device__ __forceinline__ void atomic_add(T* where, T value) {
  atomicAdd(where, value);
}

template <class T>
static __device__ __forceinline__ T atomic_fetch_add(T* where, T value) {
  return atomicAdd(where, value);
}

// Small arrays passed by value: elements are parameters of the entry.
template <class T, int n>
struct Table {
  T values[n];
};

struct Team {
  char* scratch;
  __device__ int team_rank() const { return threadIdx.y; }
  __device__ int team_size() const { return blockDim.y; }
  __device__ void team_barrier() const { __syncthreads(); }
  __device__ int league_rank() const { return blockIdx.x; }
  __device__ int league_size() const { return gridDim.x; }
};

// The lanes of a thread within its warp, as a mask: a shuffle waits for those still in a loop.
static __device__ __forceinline__ unsigned lanes() {
  const unsigned row = blockDim.x < 32 ? (1u << blockDim.x) - 1 : ~0u;
  return row << (threadIdx.y * blockDim.x % 32);
}
template <class Body>
static __device__ __forceinline__ void for_TeamThreadRange(const Team&, int n, const Body& body) {
  for (int i = threadIdx.y; i < n; i += blockDim.y) body(i);
}
template <class Body>
static __device__ __forceinline__ void for_ThreadVectorRange(const Team&, int n, const Body& body) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) body(i);
  PK_SYNC();
}
template <class Body, class T>
static __device__ __forceinline__ void reduce_ThreadVectorRange(const Team&, int n, const Body& body,
                                                                T& sum) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) body(i, sum);
  for (int offset = blockDim.x / 2; offset > 0; offset /= 2) sum += PK_SHUFFLE(sum, offset);
}

}  // namespace pk

#define PK_POINTER(T, name) T *name,
#define PK_SCALAR(T, name) T name,

// The entry's own names begin with pk_, which kernels may not use.
#define PK_ENTRY(bound) \
  extern "C" __global__ void __launch_bounds__(bound) parki_launch(PK_PARAMETERS long long pk_count)

#define PK_ENTRY_RANGE(bound, scratch_bytes)                                   \
  PK_ENTRY(bound) {                                                            \
    const long long pk_i = (long long)blockIdx.x * blockDim.x + threadIdx.x;   \
    if (pk_i < pk_count) pk_workunit((int)pk_i PK_COMMA PK_ARGUMENTS);         \
  }
#define PK_ENTRY_TEAM(bound, scratch_bytes)                                    \
  PK_ENTRY(bound) {                                                            \
    extern __shared__ __align__(16) char pk_scratch[];                         \
    pk_workunit(pk::Team{pk_scratch} PK_COMMA PK_ARGUMENTS);                   \
  }
