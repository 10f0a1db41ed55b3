/* Raw views: every record of a journal file, or of a page, as one JSON line. Keys: docs/reference/envelope.md, "Raw records". */
#ifndef JFS_RECORDVIEW_H
#define JFS_RECORDVIEW_H

#include <stdint.h>

#include "jfs_page.h"
#include "jfs_scan.h"
#include "jfs_status.h"

/* A file and what was found in it: records of a journal file, or a scanned page. */
typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
    const jfs_record *records; /* NULL: a page */
    const jfs_page *page;
    const uint64_t *starts;    /* count + 1 offsets; for reading only */
    const uint8_t *prefix;     /* `{"file":"..."`, the same for all */
    uint64_t prefix_bytes;
    uint64_t count;
    uint64_t first;            /* a page: number of its first record */
} jfs_record_view;

/* Fills starts[0..count]: where each line begins, and at last the total. */
jfs_status jfs_record_view_starts(const jfs_record_view *view, uint64_t *starts);

/* Writes positions from..from+capacity of all lines together, less at their end. JFS_MALFORMED as jfs_lines_read. */
jfs_status jfs_record_view_read(const jfs_record_view *view, uint64_t from, uint8_t *out, uint64_t capacity,
                                uint64_t *written);

/* The name of a user record type, NULL for an unknown one. */
const char *jfs_user_type_name(int user_type);

#endif
