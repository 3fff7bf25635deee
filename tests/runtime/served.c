/* A process that serves a network over its standard input and output, with a clock that counts calls of it. */
#include <stdio.h>
#include <unistd.h>

#include "ingot_serve.h"

int SERVE(const ingot_port *port);

static int read_port(void *user, void *data, size_t bytes)
{
    (void)user;
    for (size_t done = 0; done < bytes;) {
        const ssize_t now = read(0, (char *)data + done, bytes - done);
        if (now <= 0) return 1;
        done += (size_t)now;
    }
    return 0;
}

static int write_port(void *user, const void *data, size_t bytes)
{
    (void)user;
    return write(1, data, bytes) != (ssize_t)bytes;
}

static uint64_t count(void *user) { return ++*(uint64_t *)user; }

int main(void)
{
    uint64_t calls = 0;
    const ingot_port port = {read_port, write_port, count, 1000000u, &calls};
    return SERVE(&port);
}
