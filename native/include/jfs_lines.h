/* Rendering of envelope lines and of messages' own files, any window of them. What a line holds: docs/reference/envelope.md. */
#ifndef JFS_LINES_H
#define JFS_LINES_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

/* Remembers where in a long line the last window ended. One thread at a time; may be NULL wherever it is asked for. */
typedef struct jfs_cursor jfs_cursor;

jfs_status jfs_cursor_new(jfs_cursor **out);
void jfs_cursor_free(jfs_cursor *cursor);

/* Lines that follow each other. A line is the prefix, what the queue knows, the tail, then `}` and a newline. */
typedef struct {
    const jfs_line *lines;
    const uint64_t *starts; /* count + 1 offsets: where each line begins, and the end of the last */
    const uint8_t *prefix;  /* `{"queue":"..."`, the same for all */
    uint64_t prefix_bytes;
    uint64_t count;
} jfs_lines;

/* Measures `count` messages. */
jfs_status jfs_lines_measure(const jfs_line *lines, uint64_t count, jfs_measure *out);

/* Fills starts[0..count] by measuring; for lines whose tails nobody has measured yet. */
jfs_status jfs_lines_starts(const jfs_line *lines, uint64_t count, uint64_t prefix_bytes, uint64_t *starts);

/*
 * Writes positions from..from+capacity of all lines together to `out`, less at their end; *written says how many.
 * JFS_MALFORMED: a line did not come out as long as `starts` says, so its bytes have changed since it was measured.
 */
jfs_status jfs_lines_read(const jfs_lines *lines, uint64_t from, uint8_t *out, uint64_t capacity, uint64_t *written,
                          jfs_cursor *cursor);

/* The same for the content of one message's own file, which is `body_bytes` long. */
jfs_status jfs_body_read(const jfs_line *line, uint64_t body_bytes, uint64_t from, uint8_t *out, uint64_t capacity,
                         uint64_t *written, jfs_cursor *cursor);

#endif
