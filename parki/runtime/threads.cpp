// Threads for kernels on the host. They are started when first needed, and serve all kernels of the
// process. A launch is done by its caller and by helpers, who draw chunks of indices from one
// counter. The caller waits for the helpers that are at work, and never for one that has yet to wake
// up: a small launch is over before that. Each of several callers at a time has its own launch.
#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace {

// What a kernel's object exports: it draws chunks until none are left, and returns 0 if all is well.
using Work = int (*)(const void* slots, long long count, long long chunk, long long* next);

#ifdef _WIN32
using Mutex = SRWLOCK;
using Condition = CONDITION_VARIABLE;
void lock(Mutex* mutex) { AcquireSRWLockExclusive(mutex); }
void unlock(Mutex* mutex) { ReleaseSRWLockExclusive(mutex); }
void sleep_until(Condition* event, Mutex* mutex) {
  SleepConditionVariableSRW(event, mutex, INFINITE, 0);
}
void signal_one(Condition* event) { WakeConditionVariable(event); }
void signal_all(Condition* event) { WakeAllConditionVariable(event); }
#define PK_MUTEX SRWLOCK_INIT
#define PK_CONDITION CONDITION_VARIABLE_INIT
#else
using Mutex = pthread_mutex_t;
using Condition = pthread_cond_t;
void lock(Mutex* mutex) { pthread_mutex_lock(mutex); }
void unlock(Mutex* mutex) { pthread_mutex_unlock(mutex); }
void sleep_until(Condition* event, Mutex* mutex) { pthread_cond_wait(event, mutex); }
void signal_one(Condition* event) { pthread_cond_signal(event); }
void signal_all(Condition* event) { pthread_cond_broadcast(event); }
#define PK_MUTEX PTHREAD_MUTEX_INITIALIZER
#define PK_CONDITION PTHREAD_COND_INITIALIZER
#endif

constexpr int LAUNCHES = 16;  // at a time; further callers work alone
constexpr int LINE = 128;     // bytes of memory that two cores should not both write to
constexpr long long WANTED = 1LL << 32;

struct alignas(LINE) Launch {
  int taken;          // by a caller
  int spins;          // turns of a thread that waits, before it sleeps
  long long helpers;  // those at work, and WANTED for each that may still join
  Work work;
  const void* slots;
  long long count, chunk;
  alignas(LINE) long long next;  // the first index that nobody has drawn
};

struct Pool {
  Mutex mutex = PK_MUTEX;  // of `started`, and of falling asleep
  Condition posted = PK_CONDITION, left = PK_CONDITION;
  int started = 0;
  int idle = 0, waiting = 0;  // helpers and callers that sleep, or are about to
  Launch launches[LAUNCHES] = {};
} pool;

void turn() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Wait until `ready` returns true. Who makes it so calls `wake`, which sees those that sleep: either
// they have counted themselves before it reads their number, or they see what it has done.
template <class Ready>
void wait(Condition* event, int* sleepers, int spins, const Ready& ready) {
  for (; spins > 0; --spins) {
    if (ready()) return;
    turn();
  }
  lock(&pool.mutex);
  __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
  while (!ready()) sleep_until(event, &pool.mutex);
  __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
  unlock(&pool.mutex);
}

void wake(Condition* event, const int* sleepers, int most) {
  const int asleep = __atomic_load_n(sleepers, __ATOMIC_SEQ_CST);
  if (!asleep) return;
  lock(&pool.mutex);  // whoever is about to sleep has looked again, or sleeps
  unlock(&pool.mutex);
  if (most >= asleep) return signal_all(event);
  for (; most > 0; --most) signal_one(event);
}

Launch* join() {
  for (Launch& launch : pool.launches) {
    long long seen = __atomic_load_n(&launch.helpers, __ATOMIC_SEQ_CST);
    while (seen >= WANTED)
      if (__atomic_compare_exchange_n(&launch.helpers, &seen, seen - WANTED + 1, true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return &launch;
  }
  return nullptr;
}

void help() {
  for (int spins = 0;;) {
    Launch* launch = nullptr;
    wait(&pool.posted, &pool.idle, spins, [&] { return (launch = join()) != nullptr; });
    spins = launch->spins;
    launch->work(launch->slots, launch->count, launch->chunk, &launch->next);
    __atomic_fetch_sub(&launch->helpers, 1, __ATOMIC_SEQ_CST);
    wake(&pool.left, &pool.waiting, LAUNCHES);
  }
}

#ifdef _WIN32
DWORD WINAPI run(void*) { return help(), 0; }
bool start() {
  HANDLE thread = CreateThread(nullptr, 0, run, nullptr, 0, nullptr);
  return thread && CloseHandle(thread);
}
#else
void* run(void*) { return help(), nullptr; }
bool start() {
  pthread_t thread;
  return !pthread_create(&thread, nullptr, run, nullptr) && !pthread_detach(thread);
}
// A forked child has no threads of its parent, and starts its own.
void forget() { pool = Pool(); }
__attribute__((constructor)) void prepare() { pthread_atfork(nullptr, nullptr, forget); }
#endif

// Fewer threads start where the system allows no more; a launch does with those that are there.
void start_helpers(int wanted) {
  if (__atomic_load_n(&pool.started, __ATOMIC_RELAXED) >= wanted) return;
  lock(&pool.mutex);
  while (pool.started < wanted && start()) __atomic_fetch_add(&pool.started, 1, __ATOMIC_RELAXED);
  unlock(&pool.mutex);
}

Launch* take() {
  for (Launch& launch : pool.launches)
    if (!__atomic_exchange_n(&launch.taken, 1, __ATOMIC_ACQUIRE)) return &launch;
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int parki_entry(
    int spins, Work work, const void* slots, long long count, int threads) {
  if (count < threads) threads = (int)count;
  Launch* const launch = threads > 1 ? take() : nullptr;
  if (!launch) {
    long long next = 0;
    return work(slots, count, count, &next);
  }
  launch->spins = spins;
  launch->work = work;
  launch->slots = slots;
  launch->count = count;
  launch->chunk = count / (32LL * threads);
  if (!launch->chunk) launch->chunk = 1;
  launch->next = 0;
  start_helpers(threads - 1);
  __atomic_store_n(&launch->helpers, WANTED * (threads - 1), __ATOMIC_SEQ_CST);
  wake(&pool.posted, &pool.idle, threads - 1);
  const int result = work(slots, count, launch->chunk, &launch->next);
  __atomic_fetch_and(&launch->helpers, WANTED - 1, __ATOMIC_SEQ_CST);  // nobody joins any more
  wait(&pool.left, &pool.waiting, spins,
       [&] { return !__atomic_load_n(&launch->helpers, __ATOMIC_SEQ_CST); });
  __atomic_store_n(&launch->taken, 0, __ATOMIC_RELEASE);
  return result;
}
