    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc(&arena, arena_bytes));
[% for t in inputs + outputs %]
    CUDA(cudaMalloc((void **)&device.[[ t.name ]], sizeof [[ t.name ]]));
[% endfor %]
    status = [[ name ]]_init(&net, host, sizeof host, arena, arena_bytes, stream);
[% if weights == "file" %]
    FILE *file = fopen("[[ name ]]_weights.bin", "rb");
    void *weights, *weights_block = malloc([[ upper ]]_WEIGHTS_BYTES);
    if (weights_block == NULL || file == NULL || fread(weights_block, 1, [[ upper ]]_WEIGHTS_BYTES, file) != [[ upper ]]_WEIGHTS_BYTES) {
        fprintf(stderr, "cannot read [[ name ]]_weights.bin\n");
        return 1;
    }
    fclose(file);
    CUDA(cudaMalloc(&weights, [[ upper ]]_WEIGHTS_BYTES));
    CUDA(cudaMemcpy(weights, weights_block, [[ upper ]]_WEIGHTS_BYTES, cudaMemcpyHostToDevice));
    free(weights_block);
    if (status == INGOT_OK) status = [[ name ]]_set_weights(net, weights, [[ upper ]]_WEIGHTS_BYTES);
[% endif %]
