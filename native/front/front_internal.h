/* What the front's files share. Everything below is guarded by `front.device` unless it says otherwise. */
#ifndef JFS_FRONT_INTERNAL_H
#define JFS_FRONT_INTERNAL_H

#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jfs_front.h"

#define NAME_MAX_BYTES 120 /* longer names are not kept */

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
    int kept;         /* answers are kept as of the epoch */
    uint32_t handles; /* open files whose content may be kept */
    uint32_t releases; /* files that were written and whose release Python has not answered */
    jfs_front_counts counts;
    jfs_front_state state; /* set with `device` held, looked at without */
} front_state;

extern front_state front;

/* tables.c */
int front_find(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes, answer *found);
void front_count_lookup(uint64_t nodeid);
int front_forget(const struct fuse_in_header *in, uint8_t *arguments, size_t bytes);
int front_is_opened(uint64_t handle);
void front_unpark(handle_row *row);
int front_park(uint64_t handle);
void front_return_parked(void);
void front_released(uint64_t handle);
void front_keep_answer(const asked *of, int32_t error, const uint8_t *content, size_t bytes, int lacks);
void front_drop_one(uint64_t random);

/* publish.c, all of it for Python's thread */
int front_publish(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes);
int front_publishes(void);
int front_publishing(const uint8_t *arguments, size_t bytes);
int front_publish_waiting(int (*read)(void));

/* front.c */
uint64_t front_now_ns(void);
int front_leads(void);
int front_write_answer(uint64_t unique, const answer *found);

#endif
