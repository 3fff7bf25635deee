    OPENCL(first_queue(&context, &queue));
    arena = clSVMAlloc(context, CL_MEM_READ_WRITE, arena_bytes, [[ upper ]]_ARENA_ALIGN);
    if (arena == NULL) return 1;
[% for t in inputs + outputs %]
    device.[[ t.name ]] = clSVMAlloc(context, CL_MEM_READ_WRITE, sizeof [[ t.name ]], 0);
    if (device.[[ t.name ]] == NULL) return 1;
[% endfor %]
    status = [[ name ]]_init(&net, host, sizeof host, arena, arena_bytes, queue);
[% if weights == "file" %]
    FILE *file = fopen("[[ name ]]_weights.bin", "rb");
    void *weights = clSVMAlloc(context, CL_MEM_READ_WRITE, [[ upper ]]_WEIGHTS_BYTES, [[ upper ]]_ARENA_ALIGN);
    void *weights_block = malloc([[ upper ]]_WEIGHTS_BYTES);
    if (weights == NULL || weights_block == NULL || file == NULL || fread(weights_block, 1, [[ upper ]]_WEIGHTS_BYTES, file) != [[ upper ]]_WEIGHTS_BYTES) {
        fprintf(stderr, "cannot read [[ name ]]_weights.bin\n");
        return 1;
    }
    fclose(file);
    OPENCL(clEnqueueSVMMemcpy(queue, CL_TRUE, weights, weights_block, [[ upper ]]_WEIGHTS_BYTES, 0, NULL, NULL));
    free(weights_block);
    if (status == INGOT_OK) status = [[ name ]]_set_weights(net, weights, [[ upper ]]_WEIGHTS_BYTES);
[% endif %]
    if (refused(status, net)) return 1;
