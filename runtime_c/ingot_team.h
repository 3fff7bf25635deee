/* ingot_team.h: how the threads of an OpenMP region share the turns of loops.
 *
 * Every thread starts with a part of its own, the same one in each loop over as many turns, so that it finds in its
 * cache what it wrote before. Who is done takes over turns of the others: a thread that lost its core for a while, or
 * has the longer turns, holds nobody up.
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

#define INGOT_TEAM_PARTS 64u /* threads beyond so many have no part of their own */
#define INGOT_TEAM_PIECES 16 /* a part is taken in about so many pieces */

/* How many pieces of a part are taken; alone in the lines that processors pass to one another. */
typedef struct ingot_part {
    uint32_t taken;
    char apart[124];
} ingot_part;

/* Loops use the two sets in turns: while one is used, the other is made ready. */
typedef struct ingot_team {
    ingot_part parts[2][INGOT_TEAM_PARTS];
} ingot_team;

typedef struct ingot_worker {
    ingot_team *team;
    uint32_t number, threads;
    uint32_t set; /* of the next loop */
} ingot_worker;

/* A loop that is run several times, each time in the same parts, as one thread sees it. */
typedef struct ingot_share {
    int64_t begin, end; /* the turns that ingot_take has taken, */
    int64_t repeat;     /* of this one of the loop's runs */
    int64_t repeats, turns;
    int64_t first, size, pieces; /* the turns of the part that is taken from, in so many pieces of each run */
    ingot_part *set;
    uint32_t part, parts, left; /* left: parts that were not yet seen to be empty */
} ingot_share;

/* Apart from the loops around: their registers are for what is inside. */
#if defined(__GNUC__)
#define INGOT_TEAM_FUNCTION static __attribute__((noinline, unused))
#else
#define INGOT_TEAM_FUNCTION static
#endif

INGOT_TEAM_FUNCTION void ingot_team_start(ingot_team *team)
{
    memset(team, 0, sizeof *team);
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
    share.set = worker->team->parts[worker->set];
    share.parts = share.left = worker->threads < INGOT_TEAM_PARTS ? worker->threads : INGOT_TEAM_PARTS;
    if (repeats > 0) ingot_turn_to(&share, worker->number % share.parts);
    return share;
}

/* Takes the next piece, of the own part first. 0 when there is none. */
INGOT_TEAM_FUNCTION int ingot_take(ingot_share *share)
{
    for (; share->left > 0; --share->left) {
        if (share->pieces > 0) {
            uint32_t *taken = &share->set[share->part].taken, piece;
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

/* Waits for all threads. */
INGOT_TEAM_FUNCTION void ingot_wait(ingot_worker *worker)
{
    worker->set ^= 1; /* nobody has used this set since all waited last */
    if (worker->number < INGOT_TEAM_PARTS) worker->team->parts[worker->set][worker->number].taken = 0;
    INGOT_OMP(barrier)
}

#ifdef __cplusplus
}
#endif

#endif /* INGOT_TEAM_H */
