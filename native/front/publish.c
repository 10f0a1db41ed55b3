/* Writes of lines: staged as they are read, durable together, then answered; where Python flushes, others are staged
 * meanwhile. And the files that they go to. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "front_internal.h"

enum { FILES = 1 << 8, WAITING_MAX = 256, GATHERED_MAX = 256 };

typedef struct {
    uint64_t unique;
    uint32_t bytes, lines;
    jfs_front_file *file;
} waiting_write;

static jfs_front_file *files[FILES];
jfs_front_lent front_lent = {.held = 1};
static waiting_write waiting[WAITING_MAX];
static uint32_t waiting_count;
static uint64_t staged_seen; /* so many of those that Python flushes were looked at */

jfs_front_lent *jfs_front_lent_of(void) { return &front_lent; }

void front_enter_file(jfs_front_file *file) {
    JFS_ASSERT(front_file_of(file->handle) == NULL);
    jfs_front_file **at = &files[file->handle % FILES];
    file->next = *at;
    *at = file;
}

void front_leave_file(const jfs_front_file *file) {
    for (jfs_front_file **at = &files[file->handle % FILES]; *at; at = &(*at)->next)
        if (*at == file) {
            *at = file->next;
            break;
        }
    for (uint32_t place = 0; place < waiting_count; place++)
        if (waiting[place].file == file) waiting[place].file = NULL; /* the mount ends meanwhile */
}

/* Also while Python has the end of the journal, the other thread looks for files. */
void jfs_front_publishes(jfs_front_file *file) {
    pthread_mutex_lock(&front.device);
    front_enter_file(file);
    pthread_mutex_unlock(&front.device);
}

void jfs_front_unpublishes(jfs_front_file *file) {
    pthread_mutex_lock(&front.device);
    front_leave_file(file);
    pthread_mutex_unlock(&front.device);
    if (file->is_made && !file->is_own) free(file); /* as the jfs_front_made that it is the beginning of */
}

jfs_front_file *front_file_of(uint64_t handle) {
    for (jfs_front_file *file = files[handle % FILES]; file; file = file->next)
        if (file->handle == handle) return file;
    return NULL;
}

static uint32_t lines_in(const uint8_t *at, uint32_t bytes) {
    uint32_t lines = 0;
    for (const uint8_t *const end = at + bytes; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
    return lines;
}

static void note(jfs_front_file *file) {
    if (file->taken || file->failed) return;
    file->touched = front_lent.touched;
    front_lent.touched = file;
}

static void account(const waiting_write *one, int error) {
    JFS_ASSERT(one->bytes >= one->lines);
    front_lent.news = 1;
    if (!one->file) return;
    if (!one->file->is_own) note(one->file);
    if (error) {
        one->file->failed = 1;
        front_lent.wanted |= one->file->is_own;
    } else {
        one->file->taken += one->bytes;
        one->file->lines += one->lines;
    }
}

/* All of them the same: they are durable, or nobody knows what is. Who asked may be gone; what it wrote is there. */
static void answer_first(uint32_t count, int error) {
    JFS_ASSERT(count <= waiting_count);
    /* P-7: an answer that was kept before this line does not show it; used again, it hides a durable line. */
    front.epoch++; /* what was kept does not show it */
    for (uint32_t place = 0; place < count; place++) {
        const struct fuse_write_out out = {.size = waiting[place].bytes};
        const answer found = {.error = -error, .bytes = error ? 0 : sizeof out, .content = (const void *)&out};
        front_write_answer(waiting[place].unique, &found);
        front.counts.write++;
    }
    front.counts.flushes++;
    front_lent.answered += count;
    waiting_count -= count;
    memmove(waiting, waiting + count, waiting_count * sizeof *waiting);
}

static void settle(void) {
    JFS_ASSERT(waiting_count == 0 || front_lent.tail != NULL);
    if (!waiting_count || front_lent.defers) return;
    const int error = front_lent.flush(front_lent.tail), is_left = error < 0;
    for (uint32_t place = 0; place < waiting_count; place++) account(&waiting[place], is_left ? 0 : error);
    front_lent.defers = is_left;
    front_lent.tells |= is_left;
    if (!is_left) answer_first(waiting_count, error ? EIO : 0);
}

void jfs_front_settle(uint32_t count, int error) {
    pthread_mutex_lock(&front.device);
    if (count > waiting_count) count = waiting_count;
    for (uint32_t place = 0; error && place < count; place++) account(&waiting[place], error);
    answer_first(count, error);
    pthread_mutex_unlock(&front.device);
}

void jfs_front_hold(void) {
    pthread_mutex_lock(&front.device);
    settle();
    front_lent.held = 1;
    pthread_mutex_unlock(&front.device);
}

/* Chaos: Python has to take the end of the journal back now and then. */
static int upset_publishing(void) {
    static uint64_t random = 2463534242u;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return front.chaos && random % front.chaos == 0;
}

/* Whether anything is done here with a file of lines at this moment; if not, it is counted why. */
static int may_answer(const jfs_front_file *file) {
    uint64_t *reason = NULL;
    if (front_lent.held)
        reason = &front.counts.held;
    else if (!front_lent.tail)
        reason = &front.counts.unlent;
    else if (!file->way || file->failed || front_is_written(file->handle))
        reason = &front.counts.unready;
    if (reason) ++*reason;
    return !reason;
}

int front_publish(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    JFS_ASSERT(waiting_count <= WAITING_MAX);
    const struct fuse_write_in *asked_for = (const void *)arguments;
    if (bytes < sizeof *asked_for || asked_for->size > bytes - sizeof *asked_for) return front.counts.other++, 0;
    const uint8_t *const lines = arguments + sizeof *asked_for;
    jfs_front_file *const file = front_file_of(asked_for->fh);
    if (!file) return front.counts.other++, 0;
    if (!may_answer(file) || upset_publishing()) return 0;
    if (front.releases) return front.counts.releasing++, 0;
    if (front_lent.defers && waiting_count == WAITING_MAX) return front.counts.unready++, 0;
    if (asked_for->write_flags & FUSE_WRITE_CACHE || (!file->appends && asked_for->offset != file->bytes))
        return front.counts.unready++, 0;
    int status = front_lent.stage(front_lent.tail, file->way, lines, asked_for->size);
    if (status == front_lent.full && waiting_count && !front_lent.defers) {
        settle();
        status = file->failed ? front_lent.unfit : front_lent.stage(front_lent.tail, file->way, lines, asked_for->size);
    }
    if (status == front_lent.full || status == front_lent.unfit) {
        front.counts.unpublished++;
        return 0;
    }
    /* Otherwise it is staged; or part of it may be, and then the flush fails, as this write and all beside it do. */
    file->bytes += asked_for->size;
    if (file->is_own) front_lent.user = in->uid;
    waiting[waiting_count++] = (waiting_write){in->unique, asked_for->size, lines_in(lines, asked_for->size), file};
    front_lent.staged++;
    if (front_lent.defers) account(&waiting[waiting_count - 1], 0);
    if (waiting_count == WAITING_MAX) settle();
    return 1;
}

/* Whether an interrupt is for a write that waits: it is answered all the same, within a flush. */
int front_publishing(const uint8_t *arguments, size_t bytes) {
    if (bytes < sizeof(struct fuse_interrupt_in)) return 0;
    for (uint32_t place = 0; place < waiting_count; place++)
        if (waiting[place].unique == ((const struct fuse_interrupt_in *)(const void *)arguments)->unique) return 1;
    return 0;
}

/* Make durable what was staged and answer it, with what else waits to be read; `read` reads one more. Returns whether
 * Python is to hear of it at once. */
int front_publish_waiting(int (*read)(void)) {
    pthread_mutex_lock(&front.device);
    const int any = front_lent.defers ? front_lent.staged != staged_seen : waiting_count > 0;
    pthread_mutex_unlock(&front.device);
    if (!any) return 0;
    for (int gathered = 0; gathered < GATHERED_MAX && read(); gathered++)
        ;
    pthread_mutex_lock(&front.device);
    settle();
    staged_seen = front_lent.staged;
    const int are_enough = front_lent.defers && front_lent.staged >= front_lent.enough;
    const int tells = front_lent.tells || front_lent.wanted || are_enough;
    pthread_mutex_unlock(&front.device);
    return tells;
}

/* -- files of lines: nothing of one is unfinished, so neither a flush nor a release has anything to do -- */

int front_flush_file(const struct fuse_in_header *in, const jfs_front_file *file) {
    const answer nothing = {0};
    if (!may_answer(file)) return 0;
    front_write_answer(in->unique, &nothing);
    front.counts.flush++;
    return 1;
}

int front_release_file(const struct fuse_in_header *in, jfs_front_file *file) {
    const answer nothing = {0};
    if (!may_answer(file)) return 0;
    for (uint32_t place = 0; place < waiting_count; place++)
        if (waiting[place].file == file) {
            settle();
            if (front_lent.defers) return 0;
        }
    front_write_answer(in->unique, &nothing);
    front.counts.release++;
    if (!file->is_own) {
        file->closed = front_lent.closed;
        front_lent.closed = file;
        front_lent.news = 1;
    }
    return 1;
}

const char *front_publish_check(void) {
    JFS_HOLDS(waiting_count <= WAITING_MAX);
    for (uint32_t place = 0; place < FILES; place++)
        for (const jfs_front_file *file = files[place]; file; file = file->next) JFS_HOLDS(file->handle % FILES == place);
    for (uint32_t place = 0; place < waiting_count; place++)
        JFS_HOLDS(!waiting[place].file || front_file_of(waiting[place].file->handle) == waiting[place].file);
    return NULL;
}
