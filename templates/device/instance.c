    [[ api.open() ]]
    [[ api.allocate("arena", "arena_bytes", upper ~ "_ARENA_ALIGN") ]]
[% for t in inputs + outputs %]
    [[ api.allocate("device." ~ t.name, "sizeof " ~ t.name, "0") ]]
[% endfor %]
    status = [[ name ]]_init(&net, host, sizeof host, arena, arena_bytes, [[ stream_name ]]);
[% if weights == "file" %]
    FILE *file = fopen("[[ name ]]_weights.bin", "rb");
    void *weights, *weights_block = malloc([[ upper ]]_WEIGHTS_BYTES);
    if (weights_block == NULL || file == NULL || fread(weights_block, 1, [[ upper ]]_WEIGHTS_BYTES, file) != [[ upper ]]_WEIGHTS_BYTES) {
        fprintf(stderr, "cannot read [[ name ]]_weights.bin\n");
        return 1;
    }
    fclose(file);
    [[ api.allocate("weights", upper ~ "_WEIGHTS_BYTES", upper ~ "_ARENA_ALIGN") ]]
    [[ api.upload("weights", "weights_block", upper ~ "_WEIGHTS_BYTES") ]]
    [[ api.finish() ]]
    free(weights_block);
    if (status == INGOT_OK) status = [[ name ]]_set_weights(net, weights, [[ upper ]]_WEIGHTS_BYTES);
[% endif %]
    if (refused(status, net)) return 1;
