/* The kernel's asynchronous I/O, by its system calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io_internal.h"

typedef struct {
    struct iocb request;
    uint64_t tag;
    uint64_t length;
    uint32_t next_free;
} aio_slot;

struct aio_ring {
    aio_context_t context;
    uint32_t depth;
    uint32_t first_free;
    aio_slot *slots;
    struct io_event *events;
};

int aio_open(aio_ring **out, uint32_t depth) {
    aio_ring *const ring = calloc(1, sizeof *ring);
    int error = ENOMEM;
    if (ring == NULL) return error;
    ring->depth = depth;
    ring->slots = calloc(depth, sizeof *ring->slots);
    ring->events = calloc(depth, sizeof *ring->events);
    if (ring->slots == NULL || ring->events == NULL) goto done;
    for (uint32_t i = 0; i < depth; i++) ring->slots[i].next_free = i + 1;
    error = syscall(SYS_io_setup, depth, &ring->context) == 0 ? 0 : errno;
done:
    if (error == 0) {
        *out = ring;
    } else {
        aio_close(ring);
    }
    return error;
}

/* io_destroy waits for what is under way. */
void aio_close(aio_ring *ring) {
    if (ring == NULL) return;
    if (ring->context != 0) syscall(SYS_io_destroy, ring->context);
    free(ring->events);
    free(ring->slots);
    free(ring);
}

/* RWF_DSYNC makes the kernel flush the device's cache before it reports the write as done, and report the flush's
 * failure as the write's. The alternative, an fdatasync after completion, blocks a thread for the same flush.
 */
int aio_submit(aio_ring *ring, int event_fd, const io_job *job) {
    aio_slot *const slot = &ring->slots[ring->first_free];
    struct iocb *request = &slot->request;
    long submitted;
    memset(request, 0, sizeof *request);
    request->aio_data = ring->first_free;
    request->aio_lio_opcode = IOCB_CMD_PWRITE;
    request->aio_fildes = (uint32_t)job->fd;
    request->aio_buf = (uint64_t)(uintptr_t)job->bytes;
    request->aio_nbytes = job->length;
    request->aio_offset = (int64_t)job->offset;
    request->aio_flags = IOCB_FLAG_RESFD;
    request->aio_resfd = (uint32_t)event_fd;
    request->aio_rw_flags = job->durable ? RWF_DSYNC : 0;
    do {
        submitted = syscall(SYS_io_submit, ring->context, 1, &request);
    } while (submitted < 0 && errno == EINTR);
    if (submitted != 1) return submitted < 0 ? errno : EAGAIN;
    slot->tag = job->tag;
    slot->length = job->length;
    ring->first_free = slot->next_free;
    return 0;
}

int aio_collect(aio_ring *ring, jfs_io_done *out, uint32_t room, uint32_t *count) {
    const uint32_t wanted = room < ring->depth ? room : ring->depth;
    long found;
    do {
        found = syscall(SYS_io_getevents, ring->context, 0, wanted, ring->events, NULL);
    } while (found < 0 && errno == EINTR);
    if (found < 0) return errno;
    for (long i = 0; i < found; i++) {
        const struct io_event *const event = &ring->events[i];
        const uint32_t number = (uint32_t)event->data;
        aio_slot *const slot = &ring->slots[number];
        /* A short transfer means that the rest could not be written. */
        const int error = event->res < 0 ? (int)-event->res : (uint64_t)event->res != slot->length ? EIO : 0;
        out[i] = (jfs_io_done){slot->tag, error, 0, 0};
        slot->next_free = ring->first_free;
        ring->first_free = number;
    }
    *count = (uint32_t)found;
    return 0;
}
