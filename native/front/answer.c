/* What all files of the front stand on: its state, the requests that wait for libfuse, and writing an answer. It calls
 * none of them.
 */
#define _GNU_SOURCE
#include <sys/uio.h>
#include <time.h>

#include "front_internal.h"

front_state front = {.device = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .epoch = 1, .revoked = 1};
request_queue front_queue = {NULL, &front_queue.first, 0, NULL, 0};
keeping front_keeping;

uint64_t front_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int front_write_answer(uint64_t unique, const answer *found) {
    JFS_ASSERT(found->bytes == 0 || found->content != NULL);
    JFS_ASSERT(found->error <= 0);
    struct fuse_out_header head = {
        .len = (uint32_t)sizeof head + found->bytes, .error = found->error, .unique = unique};
    struct iovec pieces[2] = {{&head, sizeof head}, {(void *)(uintptr_t)found->content, found->bytes}};
    return writev(front.fd, pieces, found->bytes ? 2 : 1) >= 0;
}

/* Of all that wait for Python to read them. */
void front_refuse_queued(void (*refuse)(uint64_t unique)) {
    for (const block *one = front_queue.first; one; one = one->next) {
        const struct fuse_in_header *in = (const void *)one->content;
        if (one->bytes >= sizeof *in && front_is_answered(in->opcode)) refuse(in->unique);
    }
}

/* Whether a write to the file waits for Python, which comes before those that are read later. */
int front_is_written(uint64_t handle) {
    for (const block *one = front_queue.first; one; one = one->next) {
        const struct fuse_in_header *in = (const void *)one->content;
        if (one->bytes < sizeof *in + sizeof(struct fuse_write_in) || in->opcode != FUSE_WRITE) continue;
        if (((const struct fuse_write_in *)(const void *)(in + 1))->fh == handle) return 1;
    }
    return 0;
}

void jfs_front_keep(int how) {
    front_keeping.keep_for = front_keeping.at_hand;
    front_keeping.keep_how = how;
}

const char *front_queue_check(void) {
    uint32_t queued = 0, spares = 0;
    block *const *last = &front_queue.first;
    for (const block *one = front_queue.first; one; one = one->next) {
        JFS_HOLDS(queued++ < front_queue.count);
        last = &one->next;
    }
    JFS_HOLDS(queued == front_queue.count);
    JFS_HOLDS(last == front_queue.last);
    for (const block *one = front_queue.spare; one; one = one->next) JFS_HOLDS(spares++ < front_queue.spares);
    JFS_HOLDS(spares == front_queue.spares);
    return NULL;
}
