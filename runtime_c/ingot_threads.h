/* ingot_threads.h: the threads of ingot_team.h. Included first, by the file of a library that starts teams.
 *
 *     ingot_together(most, room, function, &call);  function(worker, &call) on all threads of a team
 *
 * Built with OpenMP, whose settings say how many threads there are, but which does not start them: at the end of a
 * parallel region it waits for all, spinning, and after a fork for ever. Threads here are the library's own. They are
 * started when a run first needs them, sleep between runs after they looked for the next one a few microseconds, and
 * end with the program or when the library is closed. A run takes a crew of them that no other run has, invites it,
 * and returns when its last loop is over: it waits for none that comes too late. `function` copies what it needs of
 * the call, says so (ingot_joined), and touches other memory under claims only; until then, and no longer, a run
 * waits for who reads the call. A child of a fork starts threads of its own.
 *
 * This is all the state of a library: static, so that each library of a program has its own. Where there are no POSIX
 * threads, or with INGOT_TEAM_OPENMP defined, OpenMP's threads make a team in a parallel region. */
#ifndef INGOT_THREADS_H
#define INGOT_THREADS_H

#if defined(_OPENMP) && defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* syscall */
#endif
#include "ingot_team.h"

#if defined(INGOT_HAS_TEAMS)
#include <omp.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What threads of a team do, each as its worker: it copies the call, then says ingot_joined. */
typedef void (*ingot_function_of_team)(ingot_worker *worker, const void *call);

#if defined(INGOT_HAS_TEAMS)

/* As many threads as OpenMP would give a region here, but no more than there is room for; 1 where more than `most`
 * would be slower. */
static inline uint32_t ingot_threads_of_team(uint32_t most, uint32_t room)
{
    const int threads = omp_get_active_level() < omp_get_max_active_levels() ? omp_get_max_threads() : 1;
    if (threads < 2 || (uint32_t)threads > (most < INGOT_TEAM_PARTS ? most : (uint32_t)threads)) return 1;
    if (room > INGOT_TEAM_PARTS) room = INGOT_TEAM_PARTS;
    return (uint32_t)threads < room ? (uint32_t)threads : room;
}

#endif

#if defined(INGOT_HAS_TEAMS) && (defined(__unix__) || defined(__APPLE__)) && !defined(INGOT_TEAM_OPENMP)
#include <pthread.h>
#include <signal.h>
#include <time.h>
#if defined(CLOCK_MONOTONIC) && defined(SIG_SETMASK) /* not where a standard header before asked for C99 alone */
#define INGOT_HAS_THREADS 1
#endif
#endif

#if defined(INGOT_HAS_THREADS)

#if defined(__linux__)
#include <sys/syscall.h>
#if defined(__cplusplus)
#include <unistd.h>
#else
extern long syscall(long number, ...);
#endif
#endif

#define INGOT_CREWS 8            /* runs at once that have threads of their own */
#define INGOT_SPIN_NS 20000      /* how long a thread looks for another before it sleeps */
#define INGOT_HELPER_STACK 4194304
#define INGOT_JOB_BITS 16        /* of ingot_crew.gate, below the job's number: whether it is open, who reads calls */
#define INGOT_JOB_OPEN 0x8000u

typedef struct ingot_helper {
    struct ingot_crew *crew;
    pthread_t thread;
    uint32_t number;
    uint32_t asleep;  /* whether it may sleep until the next job: what it sleeps on */
    char apart[104];
} ingot_helper;

typedef struct ingot_crew {
    ingot_team team;
    uint64_t gate;    /* the number of the last job, whether it is open, and how many helpers read its call just now */
    uint32_t ended;
    uint32_t busy;    /* whether a run has the crew */
    /* The job, written before it opens: */
    ingot_function_of_team function;
    const void *call;
    uint64_t loop;    /* the number of its first loop */
    uint32_t threads, helpers;
    ingot_helper helper[INGOT_TEAM_PARTS - 1];
} ingot_crew;

static ingot_crew ingot_crews[INGOT_CREWS];

/* ---- sleeping: until a word may have changed ---------------------------------------------------------------- */

#if defined(__linux__) && defined(SYS_futex)

static void ingot_sleep(const uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, 128, seen, NULL, NULL, 0); /* FUTEX_WAIT_PRIVATE */
}

static void ingot_wake(const uint32_t *word)
{
    syscall(SYS_futex, word, 129, INT32_MAX, NULL, NULL, 0); /* FUTEX_WAKE_PRIVATE */
}

#define INGOT_SLEEP_RESET() ((void)0)

#else

static pthread_mutex_t ingot_sleep_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ingot_sleep_cond = PTHREAD_COND_INITIALIZER;

static void ingot_sleep(const uint32_t *word, uint32_t seen)
{
    pthread_mutex_lock(&ingot_sleep_mutex);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen) pthread_cond_wait(&ingot_sleep_cond, &ingot_sleep_mutex);
    pthread_mutex_unlock(&ingot_sleep_mutex);
}

static void ingot_wake(const uint32_t *word)
{
    (void)word;
    pthread_mutex_lock(&ingot_sleep_mutex);
    pthread_mutex_unlock(&ingot_sleep_mutex);
    pthread_cond_broadcast(&ingot_sleep_cond);
}

static void ingot_sleep_reset(void)
{
    const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    ingot_sleep_mutex = mutex;
    ingot_sleep_cond = cond;
}
#define INGOT_SLEEP_RESET() ingot_sleep_reset()

#endif

static inline int64_t ingot_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- waits of workers that took longer than a few looks ------------------------------------------------------- */

static void ingot_wake_team(ingot_team *team)
{
    if (!__atomic_exchange_n(&team->asleep, 0, __ATOMIC_SEQ_CST)) return;
    __atomic_fetch_add(&team->wakes, 1, __ATOMIC_SEQ_CST);
    ingot_wake(&team->wakes);
}

/* Until the worker's loop is over. Who may sleep says so before it looks a last time, and who has done something looks
 * for that after it said what. */
static void ingot_rest(ingot_worker *worker)
{
    ingot_team *const team = worker->team;
    const int64_t start = ingot_nanoseconds();
    do {
        if (ingot_over(worker, 32)) return;
    } while (ingot_nanoseconds() - start < INGOT_SPIN_NS);
    for (;;) {
        const uint32_t wakes = __atomic_load_n(&team->wakes, __ATOMIC_SEQ_CST);
        __atomic_exchange_n(&team->asleep, 1, __ATOMIC_SEQ_CST);
        if (ingot_over(worker, 1)) return;
        ingot_sleep(&team->wakes, wakes);
    }
}

/* ---- helpers --------------------------------------------------------------------------------------------------- */

/* Waits for a job after job `last` that is open; its gate, or 0 where the helper is to end. */
static uint64_t ingot_next_job(ingot_helper *self, uint64_t last)
{
    ingot_crew *const crew = self->crew;
    int64_t start = ingot_nanoseconds();
    for (;;) {
        for (int look = 0; look < 32; ++look) {
            const uint64_t gate = __atomic_load_n(&crew->gate, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&crew->ended, __ATOMIC_ACQUIRE)) return 0;
            if (gate >> INGOT_JOB_BITS != last && (gate & INGOT_JOB_OPEN)) {
                __atomic_store_n(&self->asleep, 0, __ATOMIC_RELAXED);
                return gate;
            }
            INGOT_PAUSE();
        }
        if (__atomic_load_n(&self->asleep, __ATOMIC_RELAXED)) {
            ingot_sleep(&self->asleep, 1);
            start = ingot_nanoseconds();
            __atomic_store_n(&self->asleep, 0, __ATOMIC_SEQ_CST);
        } else if (ingot_nanoseconds() - start >= INGOT_SPIN_NS) {
            __atomic_exchange_n(&self->asleep, 1, __ATOMIC_SEQ_CST); /* and look once more */
        }
    }
}

static void *ingot_help(void *helper)
{
    ingot_helper *const self = (ingot_helper *)helper;
    ingot_crew *const crew = self->crew;
    uint64_t last = 0, gate;
    while ((gate = ingot_next_job(self, last)) != 0) {
        ingot_worker worker;
        if (!__atomic_compare_exchange_n(&crew->gate, &gate, gate + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
        last = gate >> INGOT_JOB_BITS;
        memset(&worker, 0, sizeof worker);
        worker.team = &crew->team;
        worker.loop = crew->loop;
        worker.number = self->number;
        worker.threads = crew->threads;
        worker.rest = ingot_rest;
        worker.wake = ingot_wake_team;
        if (worker.number < worker.threads) crew->function(&worker, crew->call);
        else __atomic_fetch_sub(&crew->gate, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Says that a worker has read the call. */
static inline void ingot_joined(const ingot_worker *worker)
{
    if (worker->number > 0 && worker->rest != NULL)
        __atomic_fetch_sub(&((ingot_crew *)(void *)worker->team)->gate, 1, __ATOMIC_RELEASE);
}

/* In the child of a fork: there are no helpers. */
static void ingot_forked(void)
{
    for (int n = 0; n < INGOT_CREWS; ++n)
        if (ingot_crews[n].busy || ingot_crews[n].helpers > 0) memset(&ingot_crews[n], 0, sizeof ingot_crews[n]);
    INGOT_SLEEP_RESET();
}

/* A program that ends, or closes the library, ends the helpers, but those of a run that another thread is in. */
static void __attribute__((destructor)) ingot_end_helpers(void)
{
    for (int n = 0; n < INGOT_CREWS; ++n) {
        ingot_crew *const crew = &ingot_crews[n];
        if (__atomic_exchange_n(&crew->busy, 1, __ATOMIC_ACQUIRE)) continue;
        __atomic_store_n(&crew->ended, 1, __ATOMIC_SEQ_CST);
        for (; crew->helpers > 0; --crew->helpers) {
            ingot_helper *const helper = &crew->helper[crew->helpers - 1];
            if (__atomic_exchange_n(&helper->asleep, 0, __ATOMIC_SEQ_CST)) ingot_wake(&helper->asleep);
            pthread_join(helper->thread, NULL);
        }
        __atomic_store_n(&crew->ended, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&crew->busy, 0, __ATOMIC_RELEASE);
    }
}

/* Starts helpers, as far as the system lets it, until a team can have so many threads; how many it can have. Signals
 * are for the program's own threads. */
static uint32_t ingot_start_helpers(ingot_crew *crew, uint32_t threads)
{
    static uint32_t watched; /* whether forks are */
    pthread_attr_t attributes;
    sigset_t all, before;
    if (threads <= crew->helpers + 1) return threads;
    if (!__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED)) pthread_atfork(NULL, NULL, ingot_forked);
    if (pthread_attr_init(&attributes) != 0) return crew->helpers + 1;
    pthread_attr_setstacksize(&attributes, INGOT_HELPER_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; crew->helpers + 1 < threads; ++crew->helpers) {
        ingot_helper *const helper = &crew->helper[crew->helpers];
        helper->crew = crew;
        helper->number = crew->helpers + 1;
        helper->asleep = 0;
        if (pthread_create(&helper->thread, &attributes, ingot_help, helper) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return crew->helpers + 1;
}

/* ---- teams ------------------------------------------------------------------------------------------------------ */

/* A crew that no other run has, for the caller alone; NULL where all are busy. */
static ingot_crew *ingot_engage(void)
{
    for (int n = 0; n < INGOT_CREWS; ++n)
        if (!__atomic_load_n(&ingot_crews[n].busy, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(&ingot_crews[n].busy, 1, __ATOMIC_ACQUIRE)) return &ingot_crews[n];
    return NULL;
}

/* Opens the job, and wakes those up that sleep. */
static void ingot_invite(ingot_crew *crew)
{
    const uint64_t job = (__atomic_load_n(&crew->gate, __ATOMIC_RELAXED) >> INGOT_JOB_BITS) + 1;
    __atomic_exchange_n(&crew->gate, (job << INGOT_JOB_BITS) + INGOT_JOB_OPEN, __ATOMIC_SEQ_CST);
    for (uint32_t n = 0; n + 1 < crew->threads; ++n) {
        uint32_t *const asleep = &crew->helper[n].asleep;
        if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST))
            ingot_wake(asleep);
    }
}

/* Closes it, and waits for those who read the call. */
static void ingot_dismiss(ingot_crew *crew)
{
    uint64_t gate = __atomic_and_fetch(&crew->gate, ~(uint64_t)INGOT_JOB_OPEN, __ATOMIC_ACQ_REL);
    for (int look = 0; (gate & (INGOT_JOB_OPEN - 1)) != 0; ++look) {
        const struct timespec soon = {0, INGOT_SPIN_NS};
        if (look < INGOT_TEAM_LOOKS) INGOT_PAUSE();
        else nanosleep(&soon, NULL);
        gate = __atomic_load_n(&crew->gate, __ATOMIC_ACQUIRE);
    }
}

/* function(worker, call) on the threads of a team, or on this one alone. */
static void ingot_together(uint32_t most, uint32_t room, ingot_function_of_team function, const void *call)
{
    uint32_t threads = ingot_threads_of_team(most, room);
    ingot_crew *const crew = threads > 1 ? ingot_engage() : NULL;
    ingot_worker worker;
    memset(&worker, 0, sizeof worker);
    if (crew != NULL && (threads = ingot_start_helpers(crew, threads)) > 1) {
        worker.team = &crew->team;
        worker.loop = ++crew->loop;
        worker.threads = crew->threads = threads;
        worker.rest = ingot_rest;
        worker.wake = ingot_wake_team;
        crew->function = function;
        crew->call = call;
        ingot_invite(crew);
    }
    function(&worker, call);
    if (crew == NULL) return;
    if (worker.threads > 1) {
        ingot_dismiss(crew);
        crew->loop = worker.loop;
    }
    __atomic_store_n(&crew->busy, 0, __ATOMIC_RELEASE);
}

#else

static inline void ingot_joined(const ingot_worker *worker)
{
    (void)worker;
}

static void ingot_together(uint32_t most, uint32_t room, ingot_function_of_team function, const void *call)
{
#if defined(INGOT_HAS_TEAMS)
    const int threads = (int)ingot_threads_of_team(most, room);
    ingot_team team;
    memset(&team, 0, sizeof team);
    INGOT_OMP(parallel num_threads(threads))
    {
        ingot_worker worker;
        memset(&worker, 0, sizeof worker);
        worker.team = &team;
        worker.loop = 1;
        worker.number = (uint32_t)omp_get_thread_num();
        worker.threads = (uint32_t)omp_get_num_threads();
        function(&worker, call);
    }
#else
    ingot_worker worker;
    memset(&worker, 0, sizeof worker);
    (void)most;
    (void)room;
    function(&worker, call);
#endif
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* INGOT_THREADS_H */
