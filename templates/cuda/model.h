[% extends "model.h" %]
[% block notes %]
 * Tensors, weights and the arena lie in the memory of a CUDA device; instances in that of the host. Nothing here
[% if waits %]
 * allocates, prints or aborts. A run enqueues kernels on a stream, and waits for it where a tensor decides what follows:
 * no graph can capture it.
[% else %]
 * allocates, prints, aborts or waits: a run enqueues kernels on a stream, no more, so that a graph can capture it.
[% endif %]
 * Instances share no state: each thread may run one of its own.
[% endblock %]
[% block memory %]
/* cudaStream_t, without the headers of CUDA. */
#if !defined(INGOT_STREAM)
#define INGOT_STREAM
typedef struct CUstream_st *ingot_stream;
#endif

/* Bytes of the host's memory that hold an instance. */
#define [[ upper ]]_HOST_BYTES 128u
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
/* Make an instance in the host's memory, for the device that is current, with an arena there, and load the kernels.
[% if uploads %]
 * The weights are copied to the arena on the stream: a run on another one has to wait for that.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE or INGOT_ERR_ARENA_ALIGN (of the host's memory too),
 * INGOT_ERR_ABI, or INGOT_ERR_DEVICE, after which *net is there for [[ name ]]_device_error alone: one such code is
 * cudaErrorNoKernelImageForDevice (209), of a device that there is no code for. */
ingot_status [[ name ]]_init_([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    ingot_stream stream, uint32_t abi, size_t info_bytes);
static inline ingot_status [[ name ]]_init([[ name ]] **net, void *host, size_t host_bytes, void *arena, size_t arena_bytes,
    ingot_stream stream)
{
    return [[ name ]]_init_(net, host, host_bytes, arena, arena_bytes, stream, INGOT_ABI, sizeof(ingot_model_info));
}
[% if weights == "file" %]

/* Use `weights`: the contents of [[ name ]]_weights.bin in the device's memory, [[ arena_align ]]-byte aligned, kept there as
 * long as networks run, of which several may use them. Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_STATE or
 * INGOT_ERR_WEIGHTS (another size, or misaligned). */
ingot_status [[ name ]]_set_weights([[ name ]] *net, const void *weights, size_t bytes);
[% endif %]

/* CUDA's own code (cudaError_t) of the last call to it; 0, success, where there was none. */
int32_t [[ name ]]_device_error(const [[ name ]] *net);
[% endblock %]
[% block inference %]
/* Enqueue one inference on a stream. All tensors lie in the device's memory, at multiples of 16 bytes at least. Outputs
 * must not overlap inputs. Runs of one instance follow one another: on one stream, or by events.
[% if index_inputs %]
 * Indices are not checked, since that would take waiting: one out of range reads the first or the last row.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, [[ "INGOT_ERR_DIM (a dimension out of range), INGOT_ERR_ARENA_SIZE, " if dims else "" ]][[ "INGOT_ERR_WEIGHTS (not set), " if weights == "file" else "" ]]INGOT_ERR_STATE (not initialized) or
 * INGOT_ERR_DEVICE. */
[% endblock %]
