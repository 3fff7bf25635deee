/* The emulated unit (emulated_tiles.h) does what Intel's manual says: all mixes of signs, shapes that are no whole tiles,
 * sums modulo 2^32, what lies beyond a shape, and what the unit refuses. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 5, WORDS = 3, COLUMNS = 7 }; /* of sums; terms are four times as many */

static uint8_t a[ROWS][80], b[WORDS][4 * COLUMNS];
static int32_t sums[ROWS][20];
static emulated_shape shape;

static int wrong(const char *what)
{
    printf("%s\n", what);
    return 1;
}

static void set(int n, int rows, int bytes)
{
    shape.palette = 1;
    shape.rows[n] = (uint8_t)rows;
    shape.bytes[n] = (uint16_t)bytes;
}

/* The number that a byte of a mix is: bit 0 of `mix` says whether it has a sign. */
static long number(uint8_t byte, int has_sign) { return byte >= 128 && has_sign ? byte - 256L : byte; }

static int products(int mix)
{
    _tile_loadd(0, sums, sizeof sums[0]);
    _tile_loadd(1, a, sizeof a[0]);
    _tile_loadd(2, b, sizeof b[0]);
    if (mix == 0) _tile_dpbuud(0, 1, 2);
    if (mix == 1) _tile_dpbusd(0, 1, 2);
    if (mix == 2) _tile_dpbsud(0, 1, 2);
    if (mix == 3) _tile_dpbssd(0, 1, 2);
    int32_t found[ROWS][20];
    memset(found, 1, sizeof found);
    _tile_stored(0, found, sizeof found[0]);
    for (int m = 0; m < ROWS; ++m) {
        for (int n = 0; n < 20; ++n) {
            long long sum = sums[m][n];
            for (int k = 0; k < 4 * WORDS && n < COLUMNS; ++k)
                sum += number(a[m][k], mix >> 1) * number(b[k / 4][4 * n + k % 4], mix & 1);
            const int32_t expected = n < COLUMNS ? (int32_t)(uint32_t)(unsigned long long)sum : 0x01010101;
            if (found[m][n] != expected) return wrong("a sum");
        }
    }
    return 0;
}

static void shapes_that_do_not_meet(void) { _tile_dpbssd(0, 2, 1); }
static void one_tile_twice(void) { _tile_dpbssd(0, 1, 1); }
static void no_shape(void) { _tile_zero(5); }
static void a_palette(void)
{
    shape.palette = 2;
    _tile_loadconfig(&shape);
}
static void too_many_rows(void)
{
    set(3, 17, 64);
    _tile_loadconfig(&shape);
}
static void after_release(void)
{
    _tile_release();
    _tile_zero(0);
}

/* Whether a process that makes a call is ended. */
static int refused(void (*call)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(2);
        call();
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void)
{
    void (*const calls[])(void) = {shapes_that_do_not_meet, one_tile_twice, no_shape, a_palette, too_many_rows, after_release};
    for (int m = 0; m < ROWS; ++m)
        for (int k = 0; k < 80; ++k) a[m][k] = (uint8_t)(37 * m + 101 * k + (k % 3 == 0 ? 128 : 0));
    for (int k = 0; k < WORDS; ++k)
        for (int n = 0; n < 4 * COLUMNS; ++n) b[k][n] = (uint8_t)(n % 5 == 0 ? 128 : 255 - 29 * n - 53 * k);
    for (int m = 0; m < ROWS; ++m)
        for (int n = 0; n < 20; ++n) sums[m][n] = m % 2 ? INT32_MAX - n : INT32_MIN + n;
    set(0, ROWS, 4 * COLUMNS);
    set(1, ROWS, 4 * WORDS);
    set(2, WORDS, 4 * COLUMNS);
    _tile_loadconfig(&shape);
    emulated_shape now;
    _tile_storeconfig(&now);
    if (memcmp(&now, &shape, sizeof now) != 0) return wrong("the shapes");
    for (int mix = 0; mix < 4; ++mix)
        if (products(mix)) return 1;
    for (size_t n = 0; n < sizeof calls / sizeof *calls; ++n)
        if (!refused(calls[n])) return wrong("what the unit refuses");
    printf("ok\n");
    return 0;
}
