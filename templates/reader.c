[% if weights == "stream" %]
/* Reads from the file [[ name ]]_weights.bin, of which nothing is left to wait for. A board reads flash by DMA. */
static int read_weights(void *user, uint64_t offset, void *to, size_t bytes)
{
    FILE *const weights_file = user;
    if (to == NULL) return 0;
    return fseek(weights_file, (long)offset, SEEK_SET) != 0 || fread(to, 1, bytes, weights_file) != bytes;
}

[% endif %]
