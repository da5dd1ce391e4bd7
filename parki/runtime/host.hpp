// The run-time library of translated kernels on the host. An object needs the C library at most:
// threads are those of threads.cpp, which call its entry. One work item is an index, or a team run
// by one thread. With PK_TEAM > 1 a team is emulated by PK_TEAM threads that run one after another
// and hand over at each barrier: in the order of their ranks in even teams, against it in odd ones.
// A missing barrier then gives a wrong result every time, not now and then, whichever thread writes
// first.
#if PK_TEAM > 1
#include <atomic>
#include <thread>
#include <vector>
#endif

#define PK_RESTRICT __restrict__
#define PK_FUNCTION static inline
#define PK_WORKUNIT static inline
// Bodies of parallel_for are always inlined. Compilers keep large ones as functions, which read outer
// variables from memory for each item. P2P of four single layers then took 2.7 times as long.
#define PK_INLINE __attribute__((always_inline))
#define PK_UNROLL
#define PK_ELEMENTWISE PK_PRAGMA(omp simd)
#define PK_PRAGMA(x) _Pragma(#x)
#define PK_SIMD(...) PK_PRAGMA(omp simd reduction(+ : __VA_ARGS__))

namespace pk {

union Slot {
  long long integer;
  double real;
  void* pointer;
};

// Built into g++ and clang++: to read <cmath> took longer than to compile most kernels.
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
// exp(x) = 2^n exp(f), |f| < log(2) / 2. In the sum of a number and 3 2^51 the last bits are n. The
// library's is a call for each number, which leaves loops without vectors. Smaller results than a
// normal number become about the least of these.
inline double exp(double x) {
  x = x < -708.0 ? -708.0 : x;
  x = x > 709.0 ? 709.0 : x;
  union { double real; unsigned long long bits; } power;
  power.real = x * 0x1.71547652b82fep0 + 0x1.8p52;
  const double n = power.real - 0x1.8p52;
  const double f = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double e = 1.0 / 6227020800;  // Taylor's series is complete to double precision.
  e = e * f + 1.0 / 479001600;
  e = e * f + 1.0 / 39916800;
  e = e * f + 1.0 / 3628800;
  e = e * f + 1.0 / 362880;
  e = e * f + 1.0 / 40320;
  e = e * f + 1.0 / 5040;
  e = e * f + 1.0 / 720;
  e = e * f + 1.0 / 120;
  e = e * f + 1.0 / 24;
  e = e * f + 1.0 / 6;
  e = e * f + 0.5;
  e = e * f + 1.0;
  e = e * f + 1.0;
  power.bits = (power.bits + 1023) << 52;
  return e * power.real;
}
inline float exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  union { float real; unsigned int bits; } power;
  power.real = x * 0x1.715476p0f + 0x1.8p23f;
  const float n = power.real - 0x1.8p23f;
  const float f = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float e = 1.0f / 5040;
  e = e * f + 1.0f / 720;
  e = e * f + 1.0f / 120;
  e = e * f + 1.0f / 24;
  e = e * f + 1.0f / 6;
  e = e * f + 0.5f;
  e = e * f + 1.0f;
  e = e * f + 1.0f;
  power.bits = (power.bits + 127) << 23;
  return e * power.real;
}
inline double erf(double x) { return __builtin_erf(x); }
inline float erf(float x) { return __builtin_erff(x); }
inline double erfc(double x) { return __builtin_erfc(x); }
inline float erfc(float x) { return __builtin_erfcf(x); }
inline double fmin(double a, double b) { return a < b ? a : b; }
inline float fmin(float a, float b) { return a < b ? a : b; }
inline double fmax(double a, double b) { return a > b ? a : b; }
inline float fmax(float a, float b) { return a > b ? a : b; }

template <class T>
inline T atomic_fetch_add(T* where, T value) {
#ifdef PK_SERIAL
  const T old = *where;
  *where += value;
  return old;
#else
  if constexpr (T(1) / T(2) == T(0)) {
    return __atomic_fetch_add(where, value, __ATOMIC_RELAXED);
  } else {
    T old, sum;
    __atomic_load(where, &old, __ATOMIC_RELAXED);
    do sum = old + value;
    while (!__atomic_compare_exchange(where, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
  }
#endif
}
template <class T>
inline void atomic_add(T* where, T value) { atomic_fetch_add(where, value); }

#if PK_TEAM > 1
// Hands the right to run from place to place; see the head of this file.
struct Turnstile {
  std::atomic<int> owner{0};
  std::atomic<bool> gone[PK_TEAM] = {};
  int barriers[PK_TEAM] = {};  // met at each place, touched only by who has the owner
  void wait(int place) const {
    while (owner.load(std::memory_order_acquire) != place) std::this_thread::yield();
  }
  void pass(int place) {  // to the next that still runs, which may be this one
    int next = place;
    do next = (next + 1) % PK_TEAM;
    while (gone[next] && next != place);
    owner.store(next, std::memory_order_release);
  }
  void leave(int place) {
    gone[place] = true;
    pass(place);
  }
  bool agree() const {
    for (int place = 1; place < PK_TEAM; ++place)
      if (barriers[place] != barriers[0]) return false;
    return true;
  }
};
#endif

struct Team {
  long long rank;
  long long league;
  char* scratch;
#if PK_TEAM > 1
  int place;
  Turnstile* turnstile;
  int team_rank() const { return rank % 2 ? PK_TEAM - 1 - place : place; }
  int team_size() const { return PK_TEAM; }
  void team_barrier() const {
    turnstile->barriers[place]++;
    turnstile->pass(place);
    turnstile->wait(place);
  }
#else
  int team_rank() const { return 0; }
  int team_size() const { return 1; }
  void team_barrier() const {}
#endif
  int league_rank() const { return (int)rank; }
  int league_size() const { return (int)league; }
};

template <class Body>
PK_INLINE inline void for_TeamThreadRange(const Team& team, int n, const Body& body) {
  for (int i = team.team_rank(); i < n; i += team.team_size()) body(i);
}
template <class Body>
PK_INLINE inline void for_ThreadVectorRange(const Team&, int n, const Body& body) {
  for (int i = 0; i < n; ++i) body(i);
}
template <class Body, class T>
PK_INLINE inline void reduce_ThreadVectorRange(const Team&, int n, const Body& body, T& sum) {
  for (int i = 0; i < n; ++i) body(i, sum);
}

struct Scratch {  // one thread's scratch memory, aligned to a cache line; null if there is none
  char* const memory;
  char* const data;
  explicit Scratch(long long bytes)
      : memory((char*)__builtin_malloc(bytes + 63)), data(memory ? aligned(memory) : nullptr) {}
  ~Scratch() { __builtin_free(memory); }
  static char* aligned(char* p) { return p + 63 - ((__SIZE_TYPE__)p + 63) % 64; }
};

inline long long least(long long a, long long b) { return a < b ? a : b; }

}  // namespace pk

// The entry does a thread's part of a launch: it draws chunks of work items until none are left. It
// returns 0, or 1 if the threads of an emulated team met different barriers, or 2 if there was no
// memory for scratch. It reads arguments from slots of eight bytes: one call convention for every
// kernel. Its own names begin with pk_, which kernels may not use.
#define PK_POINTER(T, name) T* name = (T*)(pk_slot++)->pointer;
#define PK_SCALAR(T, name) const T name = (T)pk::read(pk_slot++, (T)0);
#define PK_ENTRY                                                                        \
  extern "C" __attribute__((visibility("default"))) int parki_entry(                    \
      const pk::Slot* pk_slot, long long pk_count, long long pk_chunk, long long* pk_next)
#define PK_FOR_EACH_ITEM                                                                \
  for (long long pk_first;                                                              \
       (pk_first = __atomic_fetch_add(pk_next, pk_chunk, __ATOMIC_RELAXED)) < pk_count;) \
    for (long long pk_i = pk_first, pk_end = pk::least(pk_first + pk_chunk, pk_count);  \
         pk_i < pk_end; ++pk_i)
namespace pk {
inline long long read(const Slot* slot, long long) { return slot->integer; }
inline double read(const Slot* slot, double) { return slot->real; }
}  // namespace pk

#define PK_ENTRY_RANGE(bound, scratch_bytes)                                            \
  PK_ENTRY {                                                                            \
    PK_PARAMETERS                                                                       \
    PK_FOR_EACH_ITEM pk_workunit((int)pk_i PK_COMMA PK_ARGUMENTS);                      \
    return 0;                                                                           \
  }

#define PK_ENTRY_TEAM(bound, scratch_bytes)                                             \
  PK_ENTRY {                                                                            \
    PK_PARAMETERS                                                                       \
    pk::Scratch pk_scratch(scratch_bytes);                                              \
    if (!pk_scratch.data) return 2;                                                     \
    PK_FOR_EACH_ITEM PK_TEAM_ITEM(scratch_bytes)                                        \
    return 0;                                                                           \
  }
#if PK_TEAM > 1
#define PK_TEAM_ITEM(scratch_bytes)                                                     \
  {                                                                                     \
    __builtin_memset(pk_scratch.data, 0xff, scratch_bytes); /* NaN */                   \
    pk::Turnstile pk_turnstile;                                                         \
    std::vector<std::thread> pk_team;                                                   \
    for (int pk_place = 0; pk_place < PK_TEAM; ++pk_place)                              \
      pk_team.emplace_back([&, pk_place] {                                              \
        pk_turnstile.wait(pk_place);                                                    \
        pk_workunit(pk::Team{pk_i, pk_count, pk_scratch.data, pk_place, &pk_turnstile}  \
                        PK_COMMA PK_ARGUMENTS);                                         \
        pk_turnstile.leave(pk_place);                                                   \
      });                                                                               \
    for (auto& pk_thread : pk_team) pk_thread.join();                                   \
    if (!pk_turnstile.agree()) return 1;                                                \
  }
#else
#define PK_TEAM_ITEM(scratch_bytes)                                                     \
  pk_workunit(pk::Team{pk_i, pk_count, pk_scratch.data} PK_COMMA PK_ARGUMENTS);
#endif
