// The run-time library of translated kernels on the host: OpenMP or serial.
// One work item is an index, or a team run by one thread. With PK_TEAM > 1 a team is emulated by
// PK_TEAM threads that run one after another, handing over at each barrier in the order of their
// ranks: a missing barrier then gives a wrong result every time, not now and then.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#if PK_TEAM > 1
#include <atomic>
#include <thread>
#include <vector>
#endif

#define PK_RESTRICT __restrict__
#define PK_FUNCTION static inline
#define PK_WORKUNIT static inline
#define PK_UNROLL
#define PK_PRAGMA(x) _Pragma(#x)
#define PK_SIMD(...) PK_PRAGMA(omp simd reduction(+ : __VA_ARGS__))

namespace pk {

union Slot {
  long long integer;
  double real;
  void* pointer;
};

inline double sqrt(double x) { return std::sqrt(x); }
inline float sqrt(float x) { return std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double floor(double x) { return std::floor(x); }
inline float floor(float x) { return std::floor(x); }
inline double fabs(double x) { return std::fabs(x); }
inline float fabs(float x) { return std::fabs(x); }
inline double exp(double x) { return std::exp(x); }
inline float exp(float x) { return std::exp(x); }
inline double erfc(double x) { return std::erfc(x); }
inline float erfc(float x) { return std::erfc(x); }
inline double fmin(double a, double b) { return a < b ? a : b; }
inline float fmin(float a, float b) { return a < b ? a : b; }
inline double fmax(double a, double b) { return a > b ? a : b; }
inline float fmax(float a, float b) { return a > b ? a : b; }

template <class T>
inline void atomic_add(T* where, T value) {
#pragma omp atomic
  *where += value;
}

#if PK_TEAM > 1
// Hands the right to run from thread to thread; see the head of this file.
struct Turnstile {
  std::atomic<int> turn{0};
  std::atomic<int> barriers[PK_TEAM] = {};
  void wait(int rank) const {
    while (turn.load(std::memory_order_acquire) != rank) std::this_thread::yield();
  }
  void pass(int rank) { turn.store((rank + 1) % PK_TEAM, std::memory_order_release); }
};
#endif

struct Team {
  long long rank;
  long long league;
  char* scratch;
#if PK_TEAM > 1
  int member;
  Turnstile* turnstile;
  int team_rank() const { return member; }
  int team_size() const { return PK_TEAM; }
  void team_barrier() const {
    turnstile->barriers[member]++;
    turnstile->pass(member);
    turnstile->wait(member);
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
inline void for_TeamThreadRange(const Team& team, int n, const Body& body) {
  for (int i = team.team_rank(); i < n; i += team.team_size()) body(i);
}
template <class Body>
inline void for_ThreadVectorRange(const Team&, int n, const Body& body) {
  for (int i = 0; i < n; ++i) body(i);
}
template <class Body, class T>
inline void reduce_ThreadVectorRange(const Team&, int n, const Body& body, T& sum) {
  for (int i = 0; i < n; ++i) body(i, sum);
}

struct Scratch {  // one thread's scratch memory, aligned to a cache line
  char* data;
  explicit Scratch(long long bytes)
      : data(bytes ? (char*)::operator new((size_t)bytes, std::align_val_t(64)) : nullptr) {}
  ~Scratch() {
    if (data) ::operator delete(data, std::align_val_t(64));
  }
};

inline long long chunk(long long count, int threads) {
  const long long n = count / ((long long)threads * 32);
  return n > 0 ? n : 1;
}

}  // namespace pk

// The entry reads its arguments from slots of eight bytes: one call convention for every kernel.
#define PK_POINTER(T, name) T* name = (T*)(slot++)->pointer;
#define PK_SCALAR(T, name) const T name = (T)pk::read(slot++, (T)0);
namespace pk {
inline long long read(const Slot* slot, long long) { return slot->integer; }
inline double read(const Slot* slot, double) { return slot->real; }
}  // namespace pk

#define PK_ENTRY_RANGE(bound, scratch_bytes)                                              \
  extern "C" __attribute__((visibility("default"))) void parki_launch(const pk::Slot* slot, long long count, int threads) {      \
    PK_PARAMETERS                                                                         \
    const long long chunk = pk::chunk(count, threads);                                    \
    (void)chunk;                                                                          \
    PK_PRAGMA(omp parallel for num_threads(threads) schedule(dynamic, chunk))             \
    for (long long i = 0; i < count; ++i) workunit((int)i PK_COMMA PK_ARGUMENTS);         \
  }

#if PK_TEAM > 1
#define PK_ENTRY_TEAM(bound, scratch_bytes)                                               \
  extern "C" __attribute__((visibility("default"))) int parki_launch(const pk::Slot* slot, long long count, int threads) {       \
    PK_PARAMETERS                                                                         \
    (void)threads;                                                                        \
    for (long long i = 0; i < count; ++i) {                                               \
      pk::Scratch scratch(scratch_bytes);                                                 \
      if (scratch.data) std::memset(scratch.data, 0xff, scratch_bytes); /* NaN */         \
      pk::Turnstile turnstile;                                                            \
      std::vector<std::thread> threads_of_team;                                           \
      for (int member = 0; member < PK_TEAM; ++member)                                    \
        threads_of_team.emplace_back([&, member] {                                        \
          turnstile.wait(member);                                                         \
          workunit(pk::Team{i, count, scratch.data, member, &turnstile} PK_COMMA          \
                       PK_ARGUMENTS);                                                     \
          turnstile.pass(member);                                                         \
        });                                                                               \
      for (auto& thread : threads_of_team) thread.join();                                 \
      for (int member = 1; member < PK_TEAM; ++member)                                    \
        if (turnstile.barriers[member] != turnstile.barriers[0]) return 1;                \
    }                                                                                     \
    return 0;                                                                             \
  }
#else
#define PK_ENTRY_TEAM(bound, scratch_bytes)                                               \
  extern "C" __attribute__((visibility("default"))) void parki_launch(const pk::Slot* slot, long long count, int threads) {      \
    PK_PARAMETERS                                                                         \
    const long long chunk = pk::chunk(count, threads);                                    \
    (void)chunk;                                                                          \
    PK_PRAGMA(omp parallel num_threads(threads))                                          \
    {                                                                                     \
      pk::Scratch scratch(scratch_bytes);                                                 \
      PK_PRAGMA(omp for schedule(dynamic, chunk))                                         \
      for (long long i = 0; i < count; ++i)                                               \
        workunit(pk::Team{i, count, scratch.data} PK_COMMA PK_ARGUMENTS);                 \
    }                                                                                     \
  }
#endif
