/* Messages as record batches of Arrow's C data interface, for whatever imports that: no library of Arrow is needed. */
#ifndef JFS_ARROW_H
#define JFS_ARROW_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

/* As the specification has them; each is released by its own `release`, which is NULL afterwards. */
struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

enum { JFS_ARROW_ERROR_BYTES = 1024 };

/* The columns that there are, in the order of their numbers; NULL behind the last. */
const char *jfs_arrow_column(uint32_t column);

/*
 * Reads messages of one queue into a record batch of `columns`, as many as make `bytes_max` bytes, but at least one;
 * *read says how many. What the lines point to is not needed afterwards. JFS_RANGE: one is longer than a column can be.
 */
jfs_status jfs_arrow_batch(const jfs_line *lines, uint64_t count, const uint8_t *columns, uint32_t column_count,
                           const uint8_t *queue, uint32_t queue_bytes, uint64_t bytes_max, struct ArrowArray *out,
                           uint64_t *read);

/*
 * Fills `next` with the next batch, or leaves its `release` NULL at the end; returns 0, or an errno with a text in
 * `error`. `done` is called once, when nobody reads on. Both get `context`.
 */
typedef int (*jfs_arrow_next)(void *context, struct ArrowArray *next, char *error);
typedef void (*jfs_arrow_done)(void *context);

/* A stream of batches of `columns`; NULL: no memory. Free it with jfs_arrow_stream_free, released or not. */
struct ArrowArrayStream *jfs_arrow_stream(const uint8_t *columns, uint32_t column_count, jfs_arrow_next next,
                                          jfs_arrow_done done, void *context);
void jfs_arrow_stream_free(struct ArrowArrayStream *stream);

#endif
