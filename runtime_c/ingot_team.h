/* ingot_team.h: how threads share the iterations of loops, each of which waits for what the others took.
 *
 * All threads of a team come by the same loops in the same order, and loops are numbered. Each thread has a part of
 * every loop, the same one in each loop of as many iterations, so that it finds in its cache what it wrote before. It
 * claims the part piece by piece, then the pieces of others: a thread that lost its core holds nobody up. Of short
 * loops (ingot_own) and of what one thread does (ingot_once) a piece is a whole part, which others claim only if its
 * owner does not come soon.
 *
 *     for (ingot_share s = ingot_shared(worker, 1, 100); ingot_take(&s);)
 *         for (int64_t i = s.begin; i < s.end; ++i) f(i);
 *     ingot_wait(worker);
 *
 * A loop is over when all of its pieces are done, whoever did them: ingot_wait adds up what the threads say they have
 * done, not who has come. So nobody waits for a thread that has claimed nothing: one that the machine does not run, or
 * that still sleeps. When it comes, it finds the loops before over, claims nothing of them, and goes on to the one that
 * the others are at. Who waits looks for a few microseconds, then sleeps (ingot_threads.h, which starts the team).
 *
 * What a claim counts carries the number of the loop, so that a late thread cannot claim a piece of another loop than
 * its own; and memory is touched under a claim only, for until a claimed piece is done no loop after it begins. */
#ifndef INGOT_TEAM_H
#define INGOT_TEAM_H

#include <string.h>

#include "ingot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A team needs atomic operations on 64 bits without a lock; else one thread does it all. */
#if defined(_OPENMP) && defined(__GCC_ATOMIC_LLONG_LOCK_FREE)
#if __GCC_ATOMIC_LLONG_LOCK_FREE == 2
#define INGOT_HAS_TEAMS 1
#endif
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

#define INGOT_TEAM_PARTS 64u  /* threads of a team at most */
#define INGOT_TEAM_PIECES 16  /* a part is claimed in about so many pieces */
#define INGOT_TEAM_LATELY 8u  /* a thread that did nothing in so many loops is not expected in the next */
#if !defined(INGOT_TEAM_LOOKS)
#define INGOT_TEAM_LOOKS 200 /* how often a thread looks for another, some 5 us, before it asks the time */
#endif
#if !defined(INGOT_TEAM_PATIENCE)
#define INGOT_TEAM_PATIENCE 50 /* how often, before it claims what another should do */
#endif

/* Numbers of a loop, and of pieces of it, in one word. */
#define INGOT_TEAM_COUNT_BITS 16
#define INGOT_TEAM_COUNT 0xffffu

/* What others claim of a thread's part, and what it says that it has done, each in a pair of lines of its own: those
 * that it claims in are not those that others look at. */
typedef struct ingot_place {
    uint64_t taken; /* the last loop with a claim in this part, and how many pieces of it are claimed */
    char apart[120];
    uint64_t done;  /* the last loop of which this thread did a piece, and how many it has done */
    char apart_too[120];
} ingot_place;

typedef struct ingot_worker ingot_worker;

typedef struct ingot_team {
    ingot_place places[INGOT_TEAM_PARTS];
    uint64_t begun;  /* the last loop for which ingot_first was claimed */
    char apart[120];
    uint32_t asleep; /* whether a thread may sleep in a wait */
    uint32_t wakes;  /* how often they were woken up: what they sleep on */
    char apart_too[120];
} ingot_team;

/* One thread of a team; all zeros: a thread by itself. */
struct ingot_worker {
    ingot_team *team;
    uint64_t loop;          /* the number of the loop that it is at */
    uint64_t over;          /* loops before this one are known to be over */
    uint32_t pieces;        /* of its loop, of all threads */
    uint32_t done, told;    /* those that this thread did, and has said so */
    uint32_t number, threads;
    void (*rest)(ingot_worker *worker);  /* waits longer; NULL: there is nothing to sleep on */
    void (*wake)(ingot_team *team);      /* those that rest */
};

/* A loop that is run several times, each time in the same parts, as one thread sees it. */
typedef struct ingot_share {
    int64_t begin, end;     /* the turns that ingot_take has claimed, */
    int64_t repeat, last;   /* of this one of the loop's runs, up to the last one of the piece */
    int64_t repeats, turns;
    ingot_worker *worker;
    int32_t runs, cuts;     /* pieces of a part: groups of runs, and divisions of its turns */
    uint32_t part, parts;
    uint32_t left;          /* parts that were not yet seen to be all claimed */
    uint32_t patience;      /* when so many are left, wait for their owners first */
} ingot_share;

/* Apart from the loops around: their registers are for what is inside. */
#if defined(__GNUC__)
#define INGOT_TEAM_FUNCTION static __attribute__((noinline, unused))
#else
#define INGOT_TEAM_FUNCTION static
#endif

#if defined(INGOT_HAS_TEAMS)

/* Adds to a word of its worker's loop one that counts at most `most`: the count before, or -1 where there is no more to
 * claim, or the loop is over. */
static inline int32_t ingot_claim(ingot_worker *worker, uint64_t *word, int32_t most)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    for (;;) {
        const uint64_t loop = seen >> INGOT_TEAM_COUNT_BITS;
        const int32_t count = loop == worker->loop ? (int32_t)(seen & INGOT_TEAM_COUNT) : 0;
        if (loop > worker->loop) worker->over = loop;
        if (loop > worker->loop || count >= most) return -1;
        if (__atomic_compare_exchange_n(word, &seen, (worker->loop << INGOT_TEAM_COUNT_BITS) + (uint64_t)count + 1u, 0,
                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return count;
    }
}

/* Say what this thread has done of its loop. */
static inline void ingot_tell(ingot_worker *worker)
{
    ingot_team *const team = worker->team;
    if (worker->told == worker->done) return;
    worker->told = worker->done;
    __atomic_exchange_n(&team->places[worker->number].done,
        (worker->loop << INGOT_TEAM_COUNT_BITS) + worker->done, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->asleep, __ATOMIC_SEQ_CST) && worker->wake != NULL) worker->wake(team);
}

/* Whether the worker's loop is over, as far as it sees in so many looks. */
static inline int ingot_over(ingot_worker *worker, int looks)
{
    for (; looks > 0; --looks) {
        uint32_t done = worker->done;
        for (uint32_t n = 1, at = worker->number; n < worker->threads; ++n) {
            at = at + 1 < worker->threads ? at + 1 : 0;
            const uint64_t seen = __atomic_load_n(&worker->team->places[at].done, __ATOMIC_SEQ_CST);
            const uint64_t loop = seen >> INGOT_TEAM_COUNT_BITS;
            if (loop > worker->loop) return 1;
            if (loop == worker->loop) done += (uint32_t)(seen & INGOT_TEAM_COUNT);
        }
        if (done == worker->pieces) return 1;
        INGOT_PAUSE();
    }
    return 0;
}

/* Whether the loop is over before others should be done what their owners did not claim. */
static inline int ingot_patient(ingot_worker *worker)
{
    int lately = 0;
    ingot_tell(worker);
    for (uint32_t n = 0; n < worker->threads; ++n) {
        const uint64_t seen = __atomic_load_n(&worker->team->places[n].done, __ATOMIC_RELAXED);
        lately |= n != worker->number && (seen >> INGOT_TEAM_COUNT_BITS) + INGOT_TEAM_LATELY >= worker->loop;
    }
    return ingot_over(worker, lately ? INGOT_TEAM_PATIENCE : 1);
}

static inline int64_t ingot_first_of(const ingot_share *share, uint32_t part)
{
    return share->turns * part / share->parts;
}

/* Claims a piece of the part: 0 where there is none. */
static inline int ingot_piece(ingot_share *share)
{
    const int64_t first = ingot_first_of(share, share->part), size = ingot_first_of(share, share->part + 1) - first;
    const int32_t cuts = share->cuts < size ? share->cuts : (int32_t)size;
    ingot_worker *const worker = share->worker;
    const int32_t piece = ingot_claim(worker, &worker->team->places[share->part].taken, share->runs * cuts);
    if (piece < 0) return 0;
    ++worker->done;
    share->begin = first + size * (piece % cuts) / cuts;
    share->end = first + size * (piece % cuts + 1) / cuts;
    share->repeat = share->repeats * (piece / cuts) / share->runs;
    share->last = share->repeats * (piece / cuts + 1) / share->runs - 1;
    return 1;
}

#endif

/* Shares `turns` of a loop that is run `repeats` times, in pieces of `runs` groups of runs by `cuts` of a part. */
static inline ingot_share ingot_divide(ingot_worker *worker, int64_t repeats, int64_t turns, int32_t runs, int32_t cuts)
{
    ingot_share share;
    memset(&share, 0, sizeof share);
    share.repeats = repeats;
    share.turns = turns;
    share.repeat = share.last = -1;
    if (repeats < 1 || turns < 1) return share;
    if (worker->threads < 2) {
        share.end = turns;
        share.last = repeats - 1;
        return share;
    }
    share.worker = worker;
    share.runs = runs;
    share.cuts = cuts;
    share.part = worker->number;
    share.parts = worker->threads;
    worker->pieces += (uint32_t)runs * (turns / share.parts >= cuts ? share.parts * (uint32_t)cuts : (uint32_t)turns);
    share.left = worker->loop < worker->over ? 0 : share.parts;
    return share;
}

/* The turns of a loop that is run `repeats` times, fewer than 2^27. */
INGOT_TEAM_FUNCTION ingot_share ingot_shared(ingot_worker *worker, int64_t repeats, int64_t turns)
{
    const int32_t runs = repeats < INGOT_TEAM_PIECES ? (int32_t)repeats : INGOT_TEAM_PIECES;
    return ingot_divide(worker, repeats, turns, runs, runs > 0 ? (INGOT_TEAM_PIECES - 1) / runs + 1 : 1);
}

/* Such turns of a loop so short that to look for what others left would take longer: each thread does its own part, and
 * that of another only where that one does not come. */
INGOT_TEAM_FUNCTION ingot_share ingot_own(ingot_worker *worker, int64_t repeats, int64_t turns)
{
    ingot_share share = ingot_divide(worker, repeats, turns, 1, 1);
    share.patience = share.left > 0 ? share.left - 1 : 0;
    return share;
}

/* A loop of one turn for the first thread; for another where that one does not come. A profile is of the first. */
INGOT_TEAM_FUNCTION ingot_share ingot_once(ingot_worker *worker)
{
    ingot_share share = ingot_divide(worker, 1, 1, 1, 1);
    share.part = 0;
    share.parts = 1;
    if (share.left > 0) share.left = 1;
    if (worker->number > 0) share.patience = 1;
#if defined(INGOT_PROFILE)
    if (worker->number > 0) share.left = 0;
#endif
    return share;
}

/* Claims the next piece, of the own part first. 0 when there is none. */
INGOT_TEAM_FUNCTION int ingot_take(ingot_share *share)
{
    if (share->repeat < share->last) {
        ++share->repeat;
        return 1;
    }
#if defined(INGOT_HAS_TEAMS)
    for (; share->left > 0; --share->left) {
        if (share->left == share->patience && ingot_patient(share->worker)) share->left = 1;
        else if (ingot_piece(share)) return 1;
        share->part = share->part + 1 < share->parts ? share->part + 1 : 0;
    }
#endif
    return 0;
}

/* Whether this thread is the one to do what belongs to the next loop, and is waited for with it. */
INGOT_TEAM_FUNCTION int ingot_first(ingot_worker *worker)
{
#if defined(INGOT_HAS_TEAMS)
    if (worker->threads < 2) return 1;
    ++worker->pieces;
#if defined(INGOT_PROFILE)
    if (worker->number > 0) return 0;
#endif
    if (ingot_claim(worker, &worker->team->begun, 1) < 0) return 0;
    ++worker->done;
#endif
    (void)worker;
    return 1;
}

/* Waits until the loop is over. */
INGOT_TEAM_FUNCTION void ingot_wait(ingot_worker *worker)
{
#if defined(INGOT_HAS_TEAMS)
    if (worker->threads < 2) return;
    if (worker->pieces > 0 && worker->loop >= worker->over) {
        ingot_tell(worker);
        while (!ingot_over(worker, INGOT_TEAM_LOOKS)) {
            if (worker->rest == NULL) continue;
            worker->rest(worker);
            break;
        }
    }
    ++worker->loop;
    worker->pieces = worker->done = worker->told = 0;
#endif
    (void)worker;
}

#ifdef __cplusplus
}
#endif

#endif /* INGOT_TEAM_H */
