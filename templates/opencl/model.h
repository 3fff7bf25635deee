[% extends "model.h" %]
[% block notes %]
 * Tensors, weights and the arena lie in shared virtual memory of an OpenCL device; instances in the host's. Nothing here
 * allocates, prints, aborts or waits: a run enqueues kernels on a queue, no more.
 * Instances share no state: each thread may run one of its own.
[% endblock %]
[% block memory %]
/* cl_command_queue, in order, without the headers of OpenCL. */
#if !defined(INGOT_QUEUE)
#define INGOT_QUEUE
typedef struct _cl_command_queue *ingot_queue;
#endif

/* Bytes of the host's memory that hold an instance. */
#define [[ upper ]]_HOST_BYTES [[ host_bytes ]]u
#define [[ upper ]]_HOST_ALIGN 16u
[% if not dims %]
/* Bytes of the device's memory that the caller passes to [[ name ]]_init and does not touch while the network is in use[[ "." if not uploads else "" ]]
[%- if uploads %];
 * the weights are among them.
[%- endif %] */
#define [[ upper ]]_ARENA_BYTES [[ arena_bytes ]]u
[% endif %]
#define [[ upper ]]_ARENA_ALIGN [[ arena_align ]]u
[% endblock %]
[% block instances %]
/* Make an instance in the host's memory, for the device and context of a queue, with an arena of clSVMAlloc: the driver
 * compiles the kernels, which takes a while.
[% if uploads %]
 * The weights are copied to the arena on the queue.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE or INGOT_ERR_ARENA_ALIGN (of the host's memory too),
 * INGOT_ERR_ABI, or INGOT_ERR_DEVICE, after which *net is there for [[ name ]]_device_error alone. */
ingot_status [[ name ]]_init_([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    ingot_queue queue, uint32_t abi, size_t info_bytes);
static inline ingot_status [[ name ]]_init([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    ingot_queue queue)
{
    return [[ name ]]_init_(net, host, host_bytes, arena, arena_bytes, queue, INGOT_ABI, sizeof(ingot_model_info));
}
[% if weights == "file" %]

/* Use `weights`: the contents of [[ name ]]_weights.bin in memory of clSVMAlloc, [[ arena_align ]]-byte aligned, kept there as
 * long as networks run, of which several may use them. Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_STATE or
 * INGOT_ERR_WEIGHTS (another size, or misaligned). */
ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes);
[% endif %]

/* OpenCL's own code of the last call to it; 0, success, where there was none. */
int32_t [[ name ]]_device_error(const [[ name ]] *net);

/* Give back what the driver made for an instance; the memory stays the caller's. Its runs are over. */
void [[ name ]]_release([[ name ]] *net);
[% endblock %]
[% block inference %]
/* Enqueue one inference on a queue. All tensors lie in memory of clSVMAlloc, at multiples of 16 bytes at least. Outputs
 * must not overlap inputs. One thread at a time runs an instance, on one queue.
[% if index_inputs %]
 * Indices are not checked, since that would take waiting: one out of range reads the first or the last row.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, [[ "INGOT_ERR_DIM (a dimension out of range), INGOT_ERR_ARENA_SIZE, " if dims else "" ]][[ "INGOT_ERR_WEIGHTS (not set), " if weights == "file" else "" ]]INGOT_ERR_STATE (not initialized) or
 * INGOT_ERR_DEVICE. */
[% endblock %]
