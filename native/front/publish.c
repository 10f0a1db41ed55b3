/* Writes of lines: staged as they are read, durable together, then answered. All of it in Python's thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "front_internal.h"

enum { FILES = 1 << 8, WAITING_MAX = 256, GATHERED_MAX = 256 };

typedef struct {
    uint64_t unique;
    uint32_t bytes, lines;
    jfs_front_file *file;
} waiting_write;

static jfs_front_file *files[FILES];
static jfs_front_lent lent;
static waiting_write waiting[WAITING_MAX];
static uint32_t waiting_count;

jfs_front_lent *jfs_front_lent_of(void) { return &lent; }

void jfs_front_publishes(jfs_front_file *file) {
    jfs_front_file **at = &files[file->handle % FILES];
    file->next = *at;
    *at = file;
}

void jfs_front_unpublishes(jfs_front_file *file) {
    for (jfs_front_file **at = &files[file->handle % FILES]; *at; at = &(*at)->next)
        if (*at == file) {
            *at = file->next;
            return;
        }
}

static jfs_front_file *file_of(uint64_t handle) {
    for (jfs_front_file *file = files[handle % FILES]; file; file = file->next)
        if (file->handle == handle) return file;
    return NULL;
}

static uint32_t lines_in(const uint8_t *at, uint32_t bytes) {
    uint32_t lines = 0;
    for (const uint8_t *const end = at + bytes; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
    return lines;
}

/* All of a batch is answered the same: it is durable, or nobody knows what is. */
static void settle(void) {
    const int error = lent.flush(lent.tail);
    front.epoch++; /* what was kept does not show it */
    for (uint32_t place = 0; place < waiting_count; place++) {
        const waiting_write *one = &waiting[place];
        const struct fuse_write_out out = {.size = one->bytes};
        const answer found = {.error = error ? -EIO : 0, .bytes = error ? 0 : sizeof out, .content = (const void *)&out};
        if (!one->file->taken && !one->file->failed) {
            one->file->touched = lent.touched;
            lent.touched = one->file;
        }
        if (error) {
            one->file->failed = 1;
        } else {
            one->file->taken += one->bytes;
            one->file->lines += one->lines;
        }
        front_write_answer(one->unique, &found); /* who asked may be gone; what it wrote is there */
        front.counts.write++;
    }
    front.counts.flushes += waiting_count > 0;
    waiting_count = 0;
}

/* Chaos: Python has to take the end of the journal back now and then. */
static int upset_publishing(void) {
    static uint64_t random = 2463534242u;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return front.chaos && random % front.chaos == 0;
}

/* 1: staged; it is answered by `front_publish_waiting`. */
int front_publish(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    const struct fuse_write_in *asked_for = (const void *)arguments;
    if (!front_leads() || !lent.tail || bytes < sizeof *asked_for || upset_publishing()) return 0;
    const uint8_t *const lines = arguments + sizeof *asked_for;
    jfs_front_file *const file = file_of(asked_for->fh);
    if (!file || !file->way || file->failed || asked_for->size > bytes - sizeof *asked_for) return 0;
    if (asked_for->write_flags & FUSE_WRITE_CACHE) return 0;
    if (!file->appends && asked_for->offset != file->bytes) return 0;
    int status = lent.stage(lent.tail, file->way, lines, asked_for->size);
    if (status == lent.full && waiting_count) {
        settle();
        status = file->failed ? lent.unfit : lent.stage(lent.tail, file->way, lines, asked_for->size);
    }
    if (status == lent.full || status == lent.unfit) {
        front.counts.unpublished++;
        return 0;
    }
    /* Otherwise it is staged; or part of it may be, and then the flush fails, as this write and all beside it do. */
    file->bytes += asked_for->size;
    waiting[waiting_count++] = (waiting_write){in->unique, asked_for->size, lines_in(lines, asked_for->size), file};
    if (waiting_count == WAITING_MAX) settle();
    return 1;
}

/* Whether an interrupt is for a write that waits: it is answered all the same, within a flush. */
int front_publishing(const uint8_t *arguments, size_t bytes) {
    if (!front_leads() || bytes < sizeof(struct fuse_interrupt_in)) return 0;
    for (uint32_t place = 0; place < waiting_count; place++)
        if (waiting[place].unique == ((const struct fuse_interrupt_in *)(const void *)arguments)->unique) return 1;
    return 0;
}

int front_publishes(void) { return waiting_count > 0; }

/* Make durable what was staged and answer it, with what else waits to be read; `read` reads one more. Returns whether
 * Python is to hear of it at once. */
int front_publish_waiting(int (*read)(void)) {
    for (int gathered = 0; gathered < GATHERED_MAX && read(); gathered++)
        ;
    pthread_mutex_lock(&front.device);
    settle();
    pthread_mutex_unlock(&front.device);
    return lent.tells;
}
