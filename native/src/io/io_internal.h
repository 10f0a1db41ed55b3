/* Between io.c (the common part, and the thread) and io_aio.c (the kernel's ring). */
#ifndef JFS_IO_INTERNAL_H
#define JFS_IO_INTERNAL_H

#include <pthread.h>

#include "jfs_io.h"

typedef struct {
    int fd;
    int durable;
    uint8_t *map;
    const uint8_t *bytes;
    uint64_t offset;
    uint64_t length;
    uint64_t tag;
    int error;
    uint64_t took_ns;
} io_job;

typedef struct aio_ring aio_ring;

struct jfs_io {
    int kind;
    int event_fd;
    uint32_t depth;
    uint32_t under_way; /* submitted and not yet given back */
    aio_ring *ring;
    /* the thread's part, under the mutex */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int thread_runs;
    int stop;
    io_job *jobs;      /* depth of them, used in turn */
    uint64_t queued;   /* counts since the beginning: submitted, */
    uint64_t finished; /* written, */
    uint64_t given;    /* and given back */
};

int aio_open(aio_ring **out, uint32_t depth); /* 0 or an errno */
void aio_close(aio_ring *ring);
int aio_submit(aio_ring *ring, int event_fd, const io_job *job);
int aio_collect(aio_ring *ring, jfs_io_done *out, uint32_t room, uint32_t *count);

#endif
