/* Inflated bodies. Their bytes are mapped from an empty file, so that looking at them raises SIGBUS; the handler inflates
 * the stretch and maps it there. It runs where a guarded function reads, so nothing is locked and no memory is just
 * being taken: it may take locks and memory itself.
 */
#define _GNU_SOURCE
#include "inflated.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "jfs_inflated.h"

enum { STRETCH = 1 << 20, SLOTS = 8, INPUT = 1 << 16, MARKS = 64 };

#define NOTHING UINT64_MAX
#define FIRST_MARKS_APART (4ull << 20)

typedef struct {
    z_stream z;
    uint64_t input;  /* where in the file it reads on */
    uint64_t output; /* how much it has given */
} place;

struct jfs_inflated {
    jfs_inflated *next;
    uint8_t *base; /* NULL: not shown */
    uint64_t bytes;
    int source, empty, memory;
    uint8_t *slots;
    uint64_t in_slot[SLOTS]; /* which stretch; NOTHING */
    uint32_t next_slot;
    pthread_mutex_t lock;
    place now;
    int ended;
    place *marks[MARKS]; /* in rising order, evenly apart; zlib knows its streams by where they lie */
    uint32_t marks_count;
    uint64_t apart;
    uint8_t input[INPUT], scratch[INPUT];
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static jfs_inflated *shown;

static uint64_t region_bytes(const jfs_inflated *body) { return (body->bytes + STRETCH - 1) / STRETCH * STRETCH; }

jfs_status jfs_inflated_new(int fd, jfs_inflated **out) {
    jfs_inflated *const body = calloc(1, sizeof *body);
    *out = NULL;
    if (body == NULL || inflateInit(&body->now.z) != Z_OK) {
        free(body);
        close(fd);
        return JFS_NO_MEMORY;
    }
    body->source = fd;
    body->empty = body->memory = -1;
    body->apart = FIRST_MARKS_APART;
    pthread_mutex_init(&body->lock, NULL);
    for (size_t i = 0; i < SLOTS; i++) body->in_slot[i] = NOTHING;
    *out = body;
    return JFS_OK;
}

static void drop(place *one) {
    inflateEnd(&one->z);
    free(one);
}

static void forget(jfs_inflated *body) {
    pthread_mutex_lock(&list_lock);
    for (jfs_inflated **at = &shown; *at != NULL; at = &(*at)->next) {
        if (*at != body) continue;
        *at = body->next;
        break;
    }
    pthread_mutex_unlock(&list_lock);
}

void jfs_inflated_free(jfs_inflated *body) {
    if (body == NULL) return;
    forget(body);
    if (body->base != NULL) munmap(body->base, region_bytes(body));
    if (body->slots != NULL) munmap(body->slots, (size_t)SLOTS * STRETCH);
    inflateEnd(&body->now.z);
    for (uint32_t i = 0; i < body->marks_count; i++) drop(body->marks[i]);
    if (body->empty >= 0) close(body->empty);
    if (body->memory >= 0) close(body->memory);
    close(body->source);
    pthread_mutex_destroy(&body->lock);
    free(body);
}

/* Every second mark goes, so that the others are twice as far apart. */
static void thin(jfs_inflated *body) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < body->marks_count; i++) {
        if (i % 2 == 0)
            drop(body->marks[i]);
        else
            body->marks[kept++] = body->marks[i];
    }
    body->marks_count = kept;
    body->apart *= 2;
}

static uint64_t next_mark(const jfs_inflated *body) { return (body->marks_count + 1) * body->apart; }

static jfs_status mark(jfs_inflated *body) {
    place *to;
    if (body->marks_count == MARKS) thin(body);
    if (next_mark(body) != body->now.output) return JFS_OK;
    to = calloc(1, sizeof *to);
    if (to == NULL || inflateCopy(&to->z, &body->now.z) != Z_OK) {
        free(to);
        return JFS_NO_MEMORY;
    }
    to->input = body->now.input - body->now.z.avail_in;
    to->output = body->now.output;
    to->z.avail_in = 0;
    body->marks[body->marks_count++] = to;
    return JFS_OK;
}

static jfs_status go_back(jfs_inflated *body, place *to) {
    inflateEnd(&body->now.z);
    memset(&body->now, 0, sizeof body->now);
    body->ended = 0;
    if (to == NULL) return inflateInit(&body->now.z) == Z_OK ? JFS_OK : JFS_NO_MEMORY;
    if (inflateCopy(&body->now.z, &to->z) != Z_OK) return JFS_NO_MEMORY;
    body->now.z.avail_in = 0;
    body->now.input = to->input;
    body->now.output = to->output;
    return JFS_OK;
}

static jfs_status feed(jfs_inflated *body) {
    z_stream *const z = &body->now.z;
    ssize_t got;
    if (z->avail_in > 0) return JFS_OK;
    do got = pread(body->source, body->input, INPUT, (off_t)body->now.input);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return JFS_MALFORMED;
    body->now.input += (uint64_t)got;
    z->next_in = body->input;
    z->avail_in = (uInt)got;
    return JFS_OK;
}

/* Gives `length` bytes, fewer only at the end. `to` NULL: they are dropped. */
static jfs_status advance(jfs_inflated *body, uint8_t *to, uint64_t length) {
    z_stream *const z = &body->now.z;
    while (length > 0 && !body->ended) {
        uint64_t room = to == NULL && length > INPUT ? INPUT : length;
        const uint64_t until = next_mark(body);
        jfs_status status = feed(body);
        if (status != JFS_OK) return status;
        if (until > body->now.output && room > until - body->now.output) room = until - body->now.output;
        if (room > STRETCH) room = STRETCH;
        z->next_out = to == NULL ? body->scratch : to;
        z->avail_out = (uInt)room;
        const int result = inflate(z, Z_NO_FLUSH);
        const uint64_t made = room - z->avail_out;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return JFS_MALFORMED;
        body->now.output += made;
        length -= made;
        if (to != NULL) to += made;
        if (result == Z_STREAM_END)
            body->ended = 1;
        else if (body->now.output == next_mark(body))
            status = mark(body);
        if (status != JFS_OK) return status;
    }
    return JFS_OK;
}

jfs_status jfs_inflated_count(jfs_inflated *body, uint64_t step_bytes, uint64_t bytes_max, uint64_t *bytes,
                              uint64_t *consumed) {
    jfs_status status;
    pthread_mutex_lock(&body->lock);
    status = advance(body, NULL, step_bytes);
    *bytes = body->bytes = body->now.output;
    *consumed = body->now.input - body->now.z.avail_in;
    pthread_mutex_unlock(&body->lock);
    if (status != JFS_OK) return status;
    if (*bytes > bytes_max) return JFS_RANGE;
    return body->ended ? JFS_OK : JFS_FULL;
}

void jfs_inflated_expect(jfs_inflated *body, uint64_t bytes) { body->bytes = bytes; }

jfs_status jfs_inflated_show(jfs_inflated *body, const uint8_t **out) {
    void *base, *slots;
    *out = NULL;
    if (body->bytes == 0) return JFS_OK;
    body->empty = memfd_create("journalfs-nothing", MFD_CLOEXEC);
    body->memory = memfd_create("journalfs-body", MFD_CLOEXEC);
    if (body->empty < 0 || body->memory < 0 || ftruncate(body->memory, (off_t)SLOTS * STRETCH) != 0)
        return JFS_NO_MEMORY;
    slots = mmap(NULL, (size_t)SLOTS * STRETCH, PROT_READ | PROT_WRITE, MAP_SHARED, body->memory, 0);
    if (slots == MAP_FAILED) return JFS_NO_MEMORY;
    body->slots = slots;
    base = mmap(NULL, (size_t)region_bytes(body), PROT_READ, MAP_SHARED | MAP_NORESERVE, body->empty, 0);
    if (base == MAP_FAILED) return JFS_NO_MEMORY;
    body->base = base;
    pthread_mutex_lock(&list_lock);
    body->next = shown;
    shown = body;
    pthread_mutex_unlock(&list_lock);
    *out = body->base;
    return JFS_OK;
}

static jfs_status seek(jfs_inflated *body, uint64_t to) {
    place *best = NULL;
    for (uint32_t i = 0; i < body->marks_count && body->marks[i]->output <= to; i++) best = body->marks[i];
    if (body->now.output > to || (best != NULL && best->output > body->now.output)) {
        const jfs_status status = go_back(body, best);
        if (status != JFS_OK) return status;
    }
    return advance(body, NULL, to - body->now.output);
}

static void *map_at(jfs_inflated *body, uint64_t stretch, int fd, uint64_t offset) {
    return mmap(body->base + stretch * STRETCH, STRETCH, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
                (off_t)offset);
}

/* What is shown is complete: it is made where nobody looks, and then mapped in one step. */
static int bring(jfs_inflated *body, uint64_t stretch) {
    const uint32_t slot = body->next_slot;
    uint8_t *const to = body->slots + (size_t)slot * STRETCH;
    const uint64_t begin = stretch * STRETCH, left = body->bytes - begin;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (body->in_slot[i] == stretch) return 1; /* somebody else looked there, too */
    body->next_slot = (slot + 1) % SLOTS;
    if (body->in_slot[slot] != NOTHING && map_at(body, body->in_slot[slot], body->empty, 0) == MAP_FAILED) return 0;
    body->in_slot[slot] = NOTHING;
    if (seek(body, begin) != JFS_OK || advance(body, to, left < STRETCH ? left : STRETCH) != JFS_OK) return 0;
    if (left < STRETCH) memset(to + left, 0, (size_t)(STRETCH - left));
    if (body->now.output != begin + (left < STRETCH ? left : STRETCH)) return 0; /* it is another file now */
    if (map_at(body, stretch, body->memory, (uint64_t)slot * STRETCH) == MAP_FAILED) return 0;
    body->in_slot[slot] = stretch;
    return 1;
}

int jfs_inflated_fault(const void *address) {
    const uint8_t *const at = address;
    const int error = errno;
    int brought = 0;
    jfs_inflated *body;
    pthread_mutex_lock(&list_lock);
    for (body = shown; body != NULL; body = body->next)
        if (at >= body->base && at < body->base + region_bytes(body)) break;
    pthread_mutex_unlock(&list_lock);
    if (body != NULL) {
        pthread_mutex_lock(&body->lock);
        brought = bring(body, (uint64_t)(at - body->base) / STRETCH);
        pthread_mutex_unlock(&body->lock);
    }
    errno = error;
    return brought;
}
