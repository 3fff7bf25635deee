/* [[ name ]]_serve.c: [[ name ]] for a host that verifies or measures it over a port: a function of this file answers it
 * (docs/board-protocol.md of Ingot). A build with -DINGOT_PROFILE, of [[ name ]].c too, has the ticks of kernels.
 *
 * [[ stamp ]]
 */
#include "[[ name ]].h"

#include "ingot_serve.h"

/* Answer requests by `port` until the host ends that: 0. 1: the port failed, or the network has no instance. */
int [[ name ]]_serve(const ingot_port *port);

INGOT_ALIGNED([[ upper ]]_ARENA_ALIGN) static unsigned char arena[[ "[" ]][[ upper ]]_ARENA_BYTES];
[% for t in inputs + outputs %]
static [[ t.ctype ]] [[ t.name ]][[ "[" ]][[ t.example_size ]]];
[% endfor %]
static [[ name ]] *net;

static ingot_status run(void) { return [[ name ]]_run([[ run_arguments ]]); }
#if defined(INGOT_PROFILE)

enum { CALLS = [[ call_names|length ]] };
static uint32_t call_ticks[CALLS + 1];
static uint64_t last;

static void keep_ticks(void *user, int32_t call)
{
    const ingot_port *const port = user;
    const uint64_t now = port->ticks != NULL ? port->ticks(port->user) : 0;
    if (call > 0) call_ticks[call - 1] = (uint32_t)(now - last);
    last = port->ticks != NULL ? port->ticks(port->user) : 0;
}
#endif

int [[ name ]]_serve(const ingot_port *port)
{
    static const ingot_served_tensor inputs[] = {
[% for t in inputs %]
        {[[ t.name ]], sizeof [[ t.name ]]},
[% else %]
        {NULL, 0},
[% endfor %]
    };
    static const ingot_served_tensor outputs[] = {
[% for t in outputs %]
        {[[ t.name ]], sizeof [[ t.name ]]},
[% endfor %]
    };
#if defined(INGOT_PROFILE)
    const ingot_served served = {&[[ name ]]_info, inputs, outputs, run, [[ name ]]_call_names, call_ticks, CALLS};
#else
    const ingot_served served = {&[[ name ]]_info, inputs, outputs, run, NULL, NULL, 0};
#endif
    if ([[ name ]]_init(&net, arena, sizeof arena) != INGOT_OK) return 1;
#if defined(INGOT_PROFILE)
    {
        static ingot_port clock;
        clock = *port;
        if ([[ name ]]_set_profile(net, keep_ticks, &clock) != INGOT_OK) return 1;
    }
#endif
    return ingot_serve(port, &served);
}
