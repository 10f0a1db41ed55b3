/* Lines that follow each other, any window of them, whatever they are made of. */
#ifndef JFS_VIEW_H
#define JFS_VIEW_H

#include "jfs_status.h"
#include "sink.h"

/* Writes line `index`, newline included; the sink stands at its beginning. */
typedef void (*jfs_put_line)(jfs_sink *sink, const void *context, uint64_t index);

/* The line that holds position `from`, which lies before starts[count]. */
uint64_t jfs_find_line(const uint64_t *starts, uint64_t count, uint64_t from);

jfs_status jfs_view_starts(jfs_put_line put, const void *context, uint64_t count, uint64_t *starts);
jfs_status jfs_view_read(jfs_put_line put, const void *context, uint64_t count, const uint64_t *starts, uint64_t from,
                         uint8_t *out, uint64_t capacity, uint64_t *written);

#endif
