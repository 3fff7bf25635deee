/* ingot_team.h: how the threads of an OpenMP region share the turns of loops.
 *
 * Every thread starts with a part of its own, the same one in each loop over as many turns, so that it finds in its
 * cache what it wrote before. Who is done takes over turns of the others: a thread that lost its core for a while, or
 * has the longer turns, holds nobody up. Of short loops every thread does its own part (ingot_own).
 *
 *     ingot_team team;                                  for the region, in memory that its threads share
 *     ingot_team_start(&team);
 *     #pragma omp parallel
 *     {
 *         ingot_worker worker = ingot_team_join(&team);                          of each thread
 *         for (ingot_share s = ingot_shared(&worker, 1, 100); ingot_take(&s);)
 *             for (int64_t i = s.begin; i < s.end; ++i) f(i);
 *         ingot_wait(&worker);                                                   for what the others took
 *     }
 *
 * Without OpenMP there is one thread. All threads must come by the same loops. */
#ifndef INGOT_TEAM_H
#define INGOT_TEAM_H

#include <string.h>

#include "ingot.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Where a turn's part of a tensor begins, less than 2^31 elements from the first. clang does not see that it is
 * positive, and with 32 bits extends its sign for each address; gcc needs more registers with 64 bits on ARM, with 32
 * on x86. */
#if defined(__clang__) || defined(__x86_64__)
typedef int64_t ingot_index;
#else
typedef int32_t ingot_index;
#endif

/* What a thread does that looks again and again for another. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define INGOT_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define INGOT_PAUSE() __asm__ volatile("yield")
#else
#define INGOT_PAUSE() ((void)0)
#endif

#define INGOT_TEAM_PARTS 64u  /* threads beyond so many have no part of their own */
#define INGOT_TEAM_PIECES 16  /* a part is taken in about so many pieces */
#if !defined(INGOT_TEAM_LOOKS)
#define INGOT_TEAM_LOOKS 200 /* how often a thread looks for another, some 5 us, before it asks to sleep */
#endif

/* A thread's part of a loop and what it says of its waits, in lines of their own: those that it counts in are not those
 * that others look at. Loops and waits use the two of a pair in turns, so that nobody who is late sees the next. */
typedef struct ingot_place {
    uint32_t taken[2]; /* pieces of its part of a loop */
    char apart[120];
    uint32_t asked;    /* its last wait, twice its number; one more where others have asked to sleep in the next */
    uint32_t come[2];  /* the wait that it has come to, twice its number; one more where all sleep in it */
    char apart_too[116];
} ingot_place;

typedef struct ingot_team {
    ingot_place places[INGOT_TEAM_PARTS];
} ingot_team;

typedef struct ingot_worker {
    ingot_team *team;
    uint32_t number, threads;
    uint32_t waits; /* so far; loops up to the next wait use the set of that parity */
} ingot_worker;

/* A loop that is run several times, each time in the same parts, as one thread sees it. */
typedef struct ingot_share {
    int64_t begin, end; /* the turns that ingot_take has taken, */
    int64_t repeat;     /* of this one of the loop's runs */
    int64_t repeats, turns;
    int64_t first, size, pieces; /* the turns of the part that is taken from, in so many pieces of each run */
    ingot_place *places;
    uint32_t set, part, parts, left; /* left: parts that were not yet seen to be empty */
} ingot_share;

/* Apart from the loops around: their registers are for what is inside. */
#if defined(__GNUC__)
#define INGOT_TEAM_FUNCTION static __attribute__((noinline, unused))
#else
#define INGOT_TEAM_FUNCTION static
#endif

/* For a region of as many threads as OpenMP gives by itself. */
INGOT_TEAM_FUNCTION void ingot_team_start(ingot_team *team)
{
    uint32_t threads = 1;
#if defined(_OPENMP)
    threads = (uint32_t)omp_get_max_threads();
#endif
    memset(team, 0, (threads < INGOT_TEAM_PARTS ? threads : INGOT_TEAM_PARTS) * sizeof *team->places);
}

/* As many threads as OpenMP would give, but no more than there is room for. */
INGOT_TEAM_FUNCTION int ingot_team_threads(int32_t room)
{
#if defined(_OPENMP)
    return omp_get_max_threads() < room ? omp_get_max_threads() : (int)room;
#else
    return room < 1 ? (int)room : 1;
#endif
}

/* The lesser of two numbers. */
INGOT_TEAM_FUNCTION uint64_t ingot_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

INGOT_TEAM_FUNCTION ingot_worker ingot_team_join(ingot_team *team)
{
    ingot_worker worker = {NULL, 0, 1, 0};
    worker.team = team;
#if defined(_OPENMP)
    worker.number = (uint32_t)omp_get_thread_num();
    worker.threads = (uint32_t)omp_get_num_threads();
#endif
    return worker;
}

/* Makes `part` the one to take from. */
static inline void ingot_turn_to(ingot_share *share, uint32_t part)
{
    const int64_t pieces = share->parts > 1 ? (INGOT_TEAM_PIECES - 1) / share->repeats + 1 : 1;
    share->part = part;
    share->first = share->turns * part / share->parts;
    share->size = share->turns * (part + 1) / share->parts - share->first;
    share->pieces = pieces < share->size ? pieces : share->size;
}

/* The turns of a loop that is run `repeats` times, fewer than 2^27. */
INGOT_TEAM_FUNCTION ingot_share ingot_shared(const ingot_worker *worker, int64_t repeats, int64_t turns)
{
    ingot_share share;
    memset(&share, 0, sizeof share);
    share.repeats = repeats;
    share.turns = turns;
    share.places = worker->team->places;
    share.set = worker->waits & 1u;
    share.parts = share.left = worker->threads < INGOT_TEAM_PARTS ? worker->threads : INGOT_TEAM_PARTS;
    if (repeats > 0) ingot_turn_to(&share, worker->number % share.parts);
    return share;
}

/* The worker's own part of such turns alone, which nobody takes over: of a loop so short that to look for what others
 * left would take longer. */
INGOT_TEAM_FUNCTION ingot_share ingot_own(const ingot_worker *worker, int64_t repeats, int64_t turns)
{
    ingot_share share;
    memset(&share, 0, sizeof share);
    share.begin = turns * worker->number / worker->threads;
    share.end = turns * (worker->number + 1) / worker->threads;
    share.repeat = -1;
    share.repeats = share.begin < share.end ? repeats : 0;
    return share;
}

/* Takes the next piece, of the own part first. 0 when there is none. */
INGOT_TEAM_FUNCTION int ingot_take(ingot_share *share)
{
    if (share->parts == 0) return ++share->repeat < share->repeats;
    for (; share->left > 0; --share->left) {
        if (share->pieces > 0) {
            uint32_t *taken = &share->places[share->part].taken[share->set], piece;
            INGOT_OMP(atomic capture)
            piece = (*taken)++;
            share->repeat = piece / share->pieces;
            if (share->repeat < share->repeats) {
                const int64_t n = piece % share->pieces;
                share->begin = share->first + share->size * n / share->pieces;
                share->end = share->first + share->size * (n + 1) / share->pieces;
                return 1;
            }
        }
        if (share->left > 1) ingot_turn_to(share, share->part + 1 < share->parts ? share->part + 1 : 0);
    }
    return 0;
}

/* Whether all threads sleep in this wait: one asked for it before `place`, whom it had waited for, came. */
static inline uint32_t ingot_asleep(ingot_place *place, uint32_t wait)
{
    uint32_t seen;
    for (int look = 0; look < INGOT_TEAM_LOOKS; ++look) {
        INGOT_OMP(atomic read seq_cst)
        seen = place->come[wait >> 1 & 1u];
        if ((seen ^ wait) < 2) return seen & 1u;
        INGOT_PAUSE();
    }
    INGOT_OMP(atomic capture seq_cst)
    { seen = place->asked; place->asked |= 1u; }
    if ((int32_t)(seen - wait) < 0) return 1; /* it is still to come to this wait, and to see that it was asked */
    do {
        INGOT_OMP(atomic read seq_cst)
        seen = place->come[wait >> 1 & 1u];
    } while ((seen ^ wait) >= 2);
    return seen & 1u;
}

/* Waits for all threads: looks at what each says, and where one does not come soon, all use OpenMP's barrier, in which
 * they may sleep. A thread that was asked to sleep says so to all when it comes, and nobody goes on without having
 * heard all: they agree. A barrier of OpenMP alone takes 5 times as long between threads that come together. */
INGOT_TEAM_FUNCTION void ingot_wait(ingot_worker *worker)
{
    const uint32_t wait = 2 * ++worker->waits;
    uint32_t asleep = worker->threads > INGOT_TEAM_PARTS;
    if (worker->number < INGOT_TEAM_PARTS) {
        ingot_place *const own = &worker->team->places[worker->number];
        uint32_t asked;
        own->taken[worker->waits & 1u] = 0; /* which nobody has used since all waited last */
        INGOT_OMP(atomic capture seq_cst)
        { asked = own->asked; own->asked = wait; }
        asleep |= asked & 1u;
        INGOT_OMP(atomic write seq_cst)
        own->come[worker->waits & 1u] = wait | asleep;
    }
    for (uint32_t n = 1; n < worker->threads && !asleep; ++n)
        asleep = ingot_asleep(&worker->team->places[(worker->number + n) % worker->threads], wait);
    if (asleep) {
        INGOT_OMP(barrier)
    }
}

#ifdef __cplusplus
}
#endif

#endif /* INGOT_TEAM_H */
