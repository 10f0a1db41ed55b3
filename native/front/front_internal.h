/* What the front's files share. Everything below is guarded by `front.device` unless it says otherwise. */
#ifndef JFS_FRONT_INTERNAL_H
#define JFS_FRONT_INTERNAL_H

#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../src/base/jfs_assert.h"
#include "jfs_front.h"

#define NAME_MAX_BYTES JFS_FRONT_NAME_BYTES

typedef struct block { /* one request, as it was read */
    struct block *next;
    size_t bytes;
    _Alignas(8) uint8_t content[];
} block;

typedef struct { /* a request that was handed on, by which its answer is known again */
    uint64_t unique, nodeid, epoch;
    uint32_t opcode, uid;
    char name[NAME_MAX_BYTES];
} asked;

typedef struct { /* what C would have answered, in shadow mode */
    uint64_t unique, epoch;
    int32_t error;
    uint32_t bytes;
    uint8_t *content;
} expected;

typedef struct handle_row handle_row;

enum { SET_ROWS = 4 /* of a table without chains: what takes a place in a full one drops what was there */ };

typedef struct { /* what rows of names begin with */
    uint64_t parent, epoch; /* as of this epoch it holds, */
    uint32_t uid;           /* for this user; 0 where it is the same for all */
    int lasts;              /* whatever is published in C */
    char name[NAME_MAX_BYTES];
} named;

typedef struct {
    void *rows; /* each begins with a `named` */
    size_t row_bytes, sets;
} named_table;

typedef struct {
    int32_t error;
    uint32_t bytes;
    const uint8_t *content;
    handle_row *opens; /* what nobody has open while it is not answered */
    uint64_t counted; /* the node that the kernel knows once more */
    uint64_t *counter;
} answer;

typedef struct {
    pthread_mutex_t device; /* held from reading a request until it is answered or queued */
    int fd;
    int claimed, started, hot, spins, shadow;
    uint32_t chaos, until_chaos;
    const char *problem;
    uint64_t epoch;
    uint64_t revoked; /* the epoch of the last revocation: what lasts holds since then */
    int kept;         /* answers are kept as of the epoch */
    int blind;        /* for want of memory: all is Python's from here on */
    uint32_t handles; /* open files whose content may be kept */
    uint32_t releases; /* files that were written and whose release Python has not answered */
    jfs_front_counts counts;
    jfs_front_state state; /* set with `device` held, looked at without */
} front_state;

typedef struct { /* requests that libfuse has yet to read; `device` is held */
    block *first, **last;
    uint32_t count;
    block *spare;
    uint32_t spares;
} request_queue;

typedef struct { /* of Python's thread alone: the request that it has, and whether its answer is to be kept */
    uint64_t at_hand, keep_for;
    int keep_how;
} keeping;

/* answer.c */
extern front_state front;
extern request_queue front_queue;
extern keeping front_keeping;
uint64_t front_now_ns(void);
int front_write_answer(uint64_t unique, const answer *found);
void front_refuse_queued(void (*refuse)(uint64_t unique));
int front_is_written(uint64_t handle);

/* Whether anybody waits for an answer to it. */
static inline int front_is_answered(uint32_t opcode) {
    return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT && opcode != FUSE_DESTROY;
}

/* What is wrong with the whole of each file's structures, with `device` held; NULL: nothing. The debug build asks after
 * each request that is read.
 */
const char *front_queue_check(void);
const char *front_tables_check(void);
const char *front_publish_check(void);
const char *front_made_check(void);

/* tables.c */
int front_find(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes, answer *found);
int front_count_lookup(uint64_t nodeid);
uint64_t front_uncount(uint64_t nodeid, uint64_t lookups);
int front_is_opened(uint64_t handle);
void front_leave_out_flushes(struct fuse_open_out *out);
void front_unpark(handle_row *row);
int front_park(uint64_t handle);
void front_return_parked(void);
void front_released(uint64_t handle);
void front_keep_answer(const asked *of, int32_t error, const uint8_t *content, size_t bytes, int how);
void front_drop_one(uint64_t random);
void front_drop_name(uint64_t parent, const char *name);
void *front_named(const named_table *table, uint64_t parent, uint32_t uid, const char *name); /* NULL: not there */
void *front_place_for(const named_table *table, uint64_t parent, uint32_t uid, const char *name);

/* publish.c; 1: answered, or staged and then answered by `front_publish_waiting` */
extern jfs_front_lent front_lent;
int front_publish(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes);
int front_publishing(const uint8_t *arguments, size_t bytes);
int front_publish_waiting(int (*read)(void));
jfs_front_file *front_file_of(uint64_t handle);
void front_enter_file(jfs_front_file *file);
void front_leave_file(const jfs_front_file *file);
int front_flush_file(const struct fuse_in_header *in, const jfs_front_file *file);
int front_release_file(const struct fuse_in_header *in, jfs_front_file *file); /* an own one is for `front_made_closed` then */

/* made.c; 1: answered */
int front_create(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes);
void front_keep_create(const asked *of, const uint8_t *content, size_t bytes);
int front_made_attributes(const struct fuse_in_header *in);
int front_made_named(uint64_t parent, const uint8_t *name, size_t bytes);
int front_made_forgets(uint64_t nodeid, uint64_t lookups);
void front_made_wants(uint64_t nodeid);
void front_made_closed(jfs_front_file *file);

/* watch.c; both with `front.device` held */
void front_note_request(uint64_t unique);
void front_note_answer(uint64_t unique);

#endif
