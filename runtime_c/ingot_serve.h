/* ingot_serve.h: the board's side of Ingot's board protocol, by which a host sets inputs, runs a network and reads what
 * it computed, over a serial port or whatever else carries bytes (docs/board-protocol.md).
 *
 * A frame: 'I', 'g', a command, 0 (of a reply: a status), a sequence number, the length of the data as three bytes,
 * the data, and the CRC-32 of all that as four bytes; numbers have their lowest byte first. Each request gets one
 * reply, whose command is the request's with the highest bit set, of the same sequence number. */
#ifndef INGOT_SERVE_H
#define INGOT_SERVE_H

#include <string.h>

#include "ingot.h"

#define INGOT_SERVE_VERSION 1u
#define INGOT_SERVE_MOST 4096u /* bytes of data in a request: what says more is damaged, and no frame */

/* What carries the bytes, and a clock. read and write take all `bytes` and return 0; anything else ends the session. */
typedef struct ingot_port {
    int (*read)(void *user, void *data, size_t bytes);
    int (*write)(void *user, const void *data, size_t bytes);
    uint64_t (*ticks)(void *user); /* NULL: no clock */
    uint32_t hz;                   /* ticks in a second */
    void *user;
} ingot_port;

enum {
    INGOT_SERVE_HELLO = 1,   /* -> version, byte order; inputs, outputs, calls, ticks a second; name, hash, target */
    INGOT_SERVE_WRITE = 2,   /* input, offset, bytes: into that input */
    INGOT_SERVE_RUN = 3,     /* -> ticks */
    INGOT_SERVE_READ = 4,    /* output, offset, count -> bytes of that output */
    INGOT_SERVE_PROFILE = 5, /* -> ticks of each kernel call of the last run */
    INGOT_SERVE_NAMES = 6,   /* -> names of the kernels, each with a 0 behind it */
    INGOT_SERVE_END = 7
};

/* Statuses of replies, beside those of ingot_status. */
enum { INGOT_SERVE_BAD_CRC = -100, INGOT_SERVE_BAD_COMMAND = -101, INGOT_SERVE_BAD_RANGE = -102 };

typedef struct ingot_served_tensor {
    void *data;
    uint32_t bytes;
} ingot_served_tensor;

typedef struct ingot_served {
    const ingot_model_info *info;
    const ingot_served_tensor *inputs, *outputs; /* as many as info says */
    ingot_status (*run)(void);
    const char *const *names;    /* of kernel calls; NULL in a build without profiling */
    const uint32_t *ticks;       /* of each of them in the last run */
    uint32_t calls;
} ingot_served;

typedef struct ingot_link {
    const ingot_port *port;
    uint32_t crc;
    int failed;
    unsigned char sequence; /* of the request */
} ingot_link;

static void ingot_serve_sum(ingot_link *link, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        link->crc ^= data[i];
        for (int bit = 0; bit < 8; ++bit) link->crc = link->crc >> 1 ^ (link->crc & 1u ? 0xEDB88320u : 0u);
    }
}

static void ingot_serve_get(ingot_link *link, void *data, size_t bytes)
{
    if (link->failed || link->port->read(link->port->user, data, bytes) != 0) {
        link->failed = 1;
        memset(data, 0, bytes);
    }
    ingot_serve_sum(link, data, bytes);
}

static void ingot_serve_put(ingot_link *link, const void *data, size_t bytes)
{
    link->failed = link->failed || link->port->write(link->port->user, data, bytes) != 0;
    ingot_serve_sum(link, data, bytes);
}

static uint32_t ingot_serve_get_32(ingot_link *link)
{
    unsigned char b[4];
    ingot_serve_get(link, b, sizeof b);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void ingot_serve_put_32(ingot_link *link, uint32_t x)
{
    const unsigned char b[4] = {(unsigned char)x, (unsigned char)(x >> 8), (unsigned char)(x >> 16),
                                (unsigned char)(x >> 24)};
    ingot_serve_put(link, b, sizeof b);
}

/* Begin a reply with so many bytes of data; its data and ingot_serve_finish follow. */
static void ingot_serve_reply(ingot_link *link, int command, int status, uint32_t bytes)
{
    const unsigned char head[4] = {'I', 'g', (unsigned char)(command | 0x80), (unsigned char)(status & 0xFF)};
    link->crc = 0xFFFFFFFFu;
    ingot_serve_put(link, head, sizeof head);
    ingot_serve_put_32(link, bytes << 8 | link->sequence);
}

static void ingot_serve_finish(ingot_link *link) { ingot_serve_put_32(link, ~link->crc); }

static void ingot_serve_refuse(ingot_link *link, int command, int status)
{
    ingot_serve_reply(link, command, status, 0);
    ingot_serve_finish(link);
}

/* The rest of a request with `bytes` of data that are not for us. */
static int ingot_serve_is_whole(ingot_link *link, uint32_t bytes)
{
    unsigned char byte;
    while (bytes > 0 && !link->failed) {
        ingot_serve_get(link, &byte, 1);
        --bytes;
    }
    const uint32_t sum = ~link->crc;
    return ingot_serve_get_32(link) == sum && !link->failed;
}

static void ingot_serve_hello(ingot_link *link, const ingot_served *net)
{
    const ingot_model_info *const info = net->info;
    const char *const texts[3] = {info->name, info->source_hash, info->target};
    const uint32_t one = 1;
    const unsigned char facts[2] = {INGOT_SERVE_VERSION, (unsigned char)(*(const unsigned char *)&one == 0)};
    uint32_t bytes = sizeof facts + 16;
    for (int i = 0; i < 3; ++i) bytes += (uint32_t)strlen(texts[i]) + 1u;
    ingot_serve_reply(link, INGOT_SERVE_HELLO, INGOT_OK, bytes);
    ingot_serve_put(link, facts, sizeof facts);
    ingot_serve_put_32(link, (uint32_t)info->n_inputs);
    ingot_serve_put_32(link, (uint32_t)info->n_outputs);
    ingot_serve_put_32(link, net->calls);
    ingot_serve_put_32(link, link->port->ticks != NULL ? link->port->hz : 0u);
    for (int i = 0; i < 3; ++i) ingot_serve_put(link, texts[i], strlen(texts[i]) + 1u);
    ingot_serve_finish(link);
}

/* Whether `count` bytes from `offset` on lie in tensor number `number`. */
static int ingot_serve_fits(const ingot_served_tensor *tensors, uint32_t most, uint32_t number, uint32_t offset,
                            uint32_t count)
{
    return number < most && offset <= tensors[number].bytes && count <= tensors[number].bytes - offset;
}

/* WRITE: the data go where they belong as they come; when their CRC is wrong, the host sends them once more. */
static void ingot_serve_write(ingot_link *link, const ingot_served *net, uint32_t bytes)
{
    const int long_enough = bytes >= 8;
    const uint32_t input = long_enough ? ingot_serve_get_32(link) : 0;
    const uint32_t offset = long_enough ? ingot_serve_get_32(link) : 0;
    const uint32_t count = long_enough ? bytes - 8 : bytes;
    const int fits = long_enough && ingot_serve_fits(net->inputs, (uint32_t)net->info->n_inputs, input, offset, count);
    if (fits) ingot_serve_get(link, (unsigned char *)net->inputs[input].data + offset, count);
    const int whole = ingot_serve_is_whole(link, fits ? 0 : count);
    ingot_serve_refuse(link, INGOT_SERVE_WRITE, !whole ? INGOT_SERVE_BAD_CRC : fits ? INGOT_OK : INGOT_SERVE_BAD_RANGE);
}

static void ingot_serve_read(ingot_link *link, const ingot_served *net, uint32_t bytes)
{
    const int long_enough = bytes == 12;
    const uint32_t output = long_enough ? ingot_serve_get_32(link) : 0;
    const uint32_t offset = long_enough ? ingot_serve_get_32(link) : 0;
    const uint32_t count = long_enough ? ingot_serve_get_32(link) : 0;
    const int whole = ingot_serve_is_whole(link, long_enough ? 0 : bytes);
    const uint32_t most = (uint32_t)net->info->n_outputs;
    const int fits = long_enough && ingot_serve_fits(net->outputs, most, output, offset, count);
    if (!whole || !fits) {
        ingot_serve_refuse(link, INGOT_SERVE_READ, whole ? INGOT_SERVE_BAD_RANGE : INGOT_SERVE_BAD_CRC);
        return;
    }
    ingot_serve_reply(link, INGOT_SERVE_READ, INGOT_OK, count);
    ingot_serve_put(link, (const unsigned char *)net->outputs[output].data + offset, count);
    ingot_serve_finish(link);
}

static void ingot_serve_run(ingot_link *link, const ingot_served *net)
{
    const ingot_port *const port = link->port;
    const uint64_t start = port->ticks != NULL ? port->ticks(port->user) : 0;
    const ingot_status status = net->run();
    const uint64_t ticks = (port->ticks != NULL ? port->ticks(port->user) : 0) - start;
    ingot_serve_reply(link, INGOT_SERVE_RUN, (int)status, 8);
    ingot_serve_put_32(link, (uint32_t)ticks);
    ingot_serve_put_32(link, (uint32_t)(ticks >> 32));
    ingot_serve_finish(link);
}

static void ingot_serve_profile(ingot_link *link, const ingot_served *net, int command)
{
    uint32_t bytes = 4 * net->calls;
    if (command == INGOT_SERVE_NAMES)
        for (uint32_t i = bytes = 0; i < net->calls; ++i) bytes += (uint32_t)strlen(net->names[i]) + 1u;
    ingot_serve_reply(link, command, INGOT_OK, bytes);
    for (uint32_t i = 0; i < net->calls; ++i) {
        if (command == INGOT_SERVE_NAMES) ingot_serve_put(link, net->names[i], strlen(net->names[i]) + 1u);
        else ingot_serve_put_32(link, net->ticks[i]);
    }
    ingot_serve_finish(link);
}

/* Answer requests until one says that it was the last, or the port fails: 0 or 1. Bytes that begin no frame are left
 * out. */
static inline int ingot_serve(const ingot_port *port, const ingot_served *net)
{
    ingot_link link = {port, 0, 0, 0};
    unsigned char head[4] = {0};
    while (!link.failed) {
        link.crc = 0xFFFFFFFFu;
        ingot_serve_get(&link, &head[0], 1);
        if (head[0] != 'I') continue;
        ingot_serve_get(&link, &head[1], 1);
        if (head[1] != 'g') continue;
        ingot_serve_get(&link, &head[2], 2);
        const uint32_t rest = ingot_serve_get_32(&link), bytes = rest >> 8;
        const int command = head[2];
        if (bytes > INGOT_SERVE_MOST) continue;
        link.sequence = (unsigned char)rest;
        if (command == INGOT_SERVE_WRITE) ingot_serve_write(&link, net, bytes);
        else if (command == INGOT_SERVE_READ) ingot_serve_read(&link, net, bytes);
        else if (!ingot_serve_is_whole(&link, bytes)) ingot_serve_refuse(&link, command, INGOT_SERVE_BAD_CRC);
        else if (command == INGOT_SERVE_HELLO) ingot_serve_hello(&link, net);
        else if (command == INGOT_SERVE_RUN) ingot_serve_run(&link, net);
        else if (command == INGOT_SERVE_PROFILE || command == INGOT_SERVE_NAMES)
            ingot_serve_profile(&link, net, command);
        else ingot_serve_refuse(&link, command, command == INGOT_SERVE_END ? INGOT_OK : INGOT_SERVE_BAD_COMMAND);
        if (command == INGOT_SERVE_END && !link.failed) return 0;
    }
    return 1;
}

#endif /* INGOT_SERVE_H */
