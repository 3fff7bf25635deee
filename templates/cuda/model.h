[% extends "device/model.h" %]
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
[% block handle %]
/* cudaStream_t, without the headers of CUDA. */
#if !defined(INGOT_STREAM)
#define INGOT_STREAM
typedef struct CUstream_st *ingot_stream;
#endif
[% endblock %]
[% block making %]
/* Make an instance in the host's memory, for the device that is current, with an arena there, and load the kernels.
[% if uploads %]
 * The weights are copied to the arena on the stream: a run on another one has to wait for that.
[% endif %]
 * Returns INGOT_OK, INGOT_ERR_NULL, INGOT_ERR_ARENA_SIZE or INGOT_ERR_ARENA_ALIGN (of the host's memory too),
 * INGOT_ERR_ABI, or INGOT_ERR_DEVICE, after which *net is there for [[ name ]]_device_error alone: one such code is
 * cudaErrorNoKernelImageForDevice (209), of a device that there is no code for. */
[% endblock %]
[% block tensors %], INGOT_ERR_ARGUMENT (a misaligned tensor)[% endblock %]

[% block enqueueing %]
/* Enqueue one inference on a stream. All tensors lie in the device's memory, at multiples of 16 bytes at least. Outputs
 * must not overlap inputs. Runs of one instance follow one another: on one stream, or by events.
[% endblock %]
