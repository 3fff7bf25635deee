[% extends "device/model.h" %]
[% block notes %]
 * Tensors, weights and the arena lie in shared virtual memory of an OpenCL device; instances in the host's. Nothing here
[% if waits %]
 * allocates, prints or aborts. A run enqueues kernels on a queue, and waits for it where a tensor decides what follows.
[% else %]
 * allocates, prints, aborts or waits: a run enqueues kernels on a queue, no more.
[% endif %]
 * Instances share no state: each thread may run one of its own.
[% endblock %]
[% block handle %]
/* cl_command_queue, in order, without the headers of OpenCL. */
#if !defined(INGOT_QUEUE)
#define INGOT_QUEUE
typedef struct _cl_command_queue *ingot_queue;
#endif
[% endblock %]
[% block making %]
/* Make an instance in the host's memory, for the device and context of a queue, with an arena of clSVMAlloc: the driver
 * compiles the kernels, which takes a while.
[% if uploads %]
 * The weights are copied to the arena on the queue.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE or INGOT_ERR_ARENA_ALIGN (of the host's memory too),
 * INGOT_ERR_ABI, or INGOT_ERR_DEVICE, after which *net is there for [[ name ]]_device_error alone. */
[% endblock %]
[% block release %]

/* Give back what the driver made for an instance; the memory stays the caller's. Its runs are over. */
void [[ name ]]_release([[ name ]] *net);
[% endblock %]
[% block enqueueing %]
/* Enqueue one inference on a queue. All tensors lie in memory of clSVMAlloc, at multiples of 16 bytes at least. Outputs
 * must not overlap inputs. One thread at a time runs an instance, on one queue.
[% endblock %]
