// Threads for kernels on the host. They are started when first needed, and serve all kernels of the
// process. A launch is done by its caller and by helpers, who draw chunks of work items from one
// counter. The caller waits for the helpers that are at work, and never for one that has yet to
// wake up: a small launch is over before that. Several callers at a time have a launch each.
#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace {

// The entry of a kernel's object: it draws chunks until none are left, and returns 0 if all is well.
using Work = int (*)(const void* slots, long long count, long long chunk, long long* next);

#ifdef _WIN32
using Mutex = SRWLOCK;
using Condition = CONDITION_VARIABLE;
void lock(Mutex* mutex) { AcquireSRWLockExclusive(mutex); }
void unlock(Mutex* mutex) { ReleaseSRWLockExclusive(mutex); }
void sleep_on(Condition* event, Mutex* mutex) {
  SleepConditionVariableSRW(event, mutex, INFINITE, 0);
}
void wake(Condition* event) { WakeConditionVariable(event); }
#define PK_MUTEX SRWLOCK_INIT
#define PK_CONDITION CONDITION_VARIABLE_INIT
#else
using Mutex = pthread_mutex_t;
using Condition = pthread_cond_t;
void lock(Mutex* mutex) { pthread_mutex_lock(mutex); }
void unlock(Mutex* mutex) { pthread_mutex_unlock(mutex); }
void sleep_on(Condition* event, Mutex* mutex) { pthread_cond_wait(event, mutex); }
void wake(Condition* event) { pthread_cond_signal(event); }
#define PK_MUTEX PTHREAD_MUTEX_INITIALIZER
#define PK_CONDITION PTHREAD_COND_INITIALIZER
#endif

constexpr int LAUNCHES = 16;  // at a time; further callers work alone
constexpr int CALLS = 64;     // helpers called at a time
constexpr int LINE = 128;     // bytes of memory that two cores should not both write to
constexpr long long WANTED = 1LL << 32;

struct alignas(LINE) Launch {
  int taken;          // by a caller
  int spins;          // turns of a thread that waits, before it sleeps
  int asleep;         // the caller, who waits for helpers
  long long helpers;  // those at work, and WANTED for each that may still join
  Work work;
  const void* slots;
  long long count, chunk;
  Condition left = PK_CONDITION;
  alignas(LINE) long long next;  // the first index that nobody has drawn
};

// Each helper sleeps on an event of its own. With one for all, the C library may let whoever wakes
// a helper wait until the helpers woken before are up.
struct Helper {
  Helper* next;
  bool called;
  Condition event = PK_CONDITION;
};

struct Pool {
  Mutex mutex = PK_MUTEX;
  int started = 0;
  Helper* idle = nullptr;  // a list of helpers who sleep, or are about to
  Launch launches[LAUNCHES] = {};
} pool;

void turn() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
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

// Sleep until called; return null, or a launch that has come meanwhile. Either the caller sees this
// helper in the list, or the helper sees the launch: each writes before it reads.
Launch* sleep_until_called(Helper* self) {
  lock(&pool.mutex);
  self->next = pool.idle;
  self->called = false;
  __atomic_store_n(&pool.idle, self, __ATOMIC_SEQ_CST);
  Launch* const launch = join();
  if (launch) __atomic_store_n(&pool.idle, self->next, __ATOMIC_RELAXED);
  while (!launch && !self->called) sleep_on(&self->event, &pool.mutex);
  unlock(&pool.mutex);
  return launch;
}

void call(int wanted) {
  while (wanted > 0 && __atomic_load_n(&pool.idle, __ATOMIC_SEQ_CST)) {
    Helper* called[CALLS];
    int number = 0;
    lock(&pool.mutex);
    for (Helper* idle = pool.idle; idle && number < wanted && number < CALLS; idle = pool.idle) {
      called[number++] = idle;
      idle->called = true;
      __atomic_store_n(&pool.idle, idle->next, __ATOMIC_RELAXED);
    }
    unlock(&pool.mutex);
    for (int i = 0; i < number; ++i) wake(&called[i]->event);
    wanted -= number;
  }
}

// Wait until all helpers have left a launch. Either the last one sees that its caller sleeps, or
// the caller sees that all have left.
void await_helpers(Launch* launch) {
  const auto left = [&] { return !__atomic_load_n(&launch->helpers, __ATOMIC_SEQ_CST); };
  for (int i = 0; i < launch->spins; ++i) {
    if (left()) return;
    turn();
  }
  lock(&pool.mutex);
  __atomic_store_n(&launch->asleep, 1, __ATOMIC_SEQ_CST);
  while (!left()) sleep_on(&launch->left, &pool.mutex);
  __atomic_store_n(&launch->asleep, 0, __ATOMIC_RELAXED);
  unlock(&pool.mutex);
}

void leave(Launch* launch) {
  __atomic_fetch_sub(&launch->helpers, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&launch->asleep, __ATOMIC_SEQ_CST)) return;
  lock(&pool.mutex);  // the caller has looked again, or sleeps
  unlock(&pool.mutex);
  wake(&launch->left);
}

void help() {
  Helper self;
  for (int spins = 0;;) {
    Launch* launch = join();
    for (int i = 0; !launch && i < spins; ++i) {
      turn();
      launch = join();
    }
    if (!launch) launch = sleep_until_called(&self);
    if (!launch) continue;
    spins = launch->spins;
    launch->work(launch->slots, launch->count, launch->chunk, &launch->next);
    leave(launch);
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
  call(threads - 1);
  const int result = work(slots, count, launch->chunk, &launch->next);
  __atomic_fetch_and(&launch->helpers, WANTED - 1, __ATOMIC_SEQ_CST);  // nobody joins any more
  await_helpers(launch);
  __atomic_store_n(&launch->taken, 0, __ATOMIC_RELEASE);
  return result;
}
