[% extends "device/model.c" %]
[% block load %]
    /* Load all kernels: a device that they have no code for is refused here, and no run spends time on it. */
[% for n in range(parts) %]
    TRY(*net, [[ name ]]_load_[[ n ]]());
[% endfor %]
[% if uploads %]
    TRY(*net, cudaMemcpyAsync(arena, [[ name ]]_weights, [[ upper ]]_WEIGHTS_BYTES, cudaMemcpyHostToDevice, stream));
[% endif %]
[% endblock %]
[% block unused %]
[% if not (uploads or init_lines) %]
    (void)stream;
[% endif %]
[% endblock %]
[% block tensors %]
[% if inputs + outputs %]
    if ((([% for t in inputs + outputs %][[ " | " if not loop.first ]](uintptr_t)[[ t.name ]][% endfor %]) & 15u) != 0) return INGOT_ERR_ARGUMENT;
[% endif %]
[% endblock %]
