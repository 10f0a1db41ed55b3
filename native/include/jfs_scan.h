/* Finding the records of a journal file. Layouts and rules: docs/format/records.md. */
#ifndef JFS_SCAN_H
#define JFS_SCAN_H

#include <stdint.h>

#include "jfs_status.h"

/* Record kinds: the first byte of a record. */
enum {
    JFS_EVENT = 10,
    JFS_ADD = 11,
    JFS_UPDATE = 12,
    JFS_ADD_TX = 13,
    JFS_UPDATE_TX = 14,
    JFS_DELETE_TX = 15,
    JFS_DELETE = 16,
    JFS_PREPARE = 17,
    JFS_COMMIT = 18,
    JFS_ROLLBACK = 19
};

/* Lies within the extent that a damaged record before it claims: may be a part of that record's body. */
enum { JFS_RECORD_IN_DAMAGE = 1 };

/* One valid record. Fields that its kind does not have are 0. Offsets count from the start of the file. */
typedef struct {
    int64_t record_id;
    int64_t tx_id;
    uint32_t offset;
    uint32_t length;      /* the whole record */
    uint32_t body_offset; /* PREPARE: of the extra data */
    uint32_t body_bytes;
    int32_t count;        /* PREPARE, COMMIT */
    uint8_t kind;
    int8_t user_type;
    int8_t compact_count;
    uint8_t flags;        /* JFS_RECORD_* */
} jfs_record;

enum {
    JFS_GAP_PADDING = 0, /* zeros up to the block where the next record starts: normal */
    JFS_GAP_ZEROED = 1,  /* zeros where records should be */
    JFS_GAP_GARBAGE = 2, /* damage: a valid record follows */
    JFS_GAP_TORN = 3,    /* behind the last record: begins like one of this file, but does not fit or check */
    JFS_GAP_STALE = 4    /* remains of an older life of the file: normal */
};

typedef struct {
    uint32_t offset;
    uint32_t length;
    uint32_t kind;
} jfs_gap;

enum {
    JFS_SCAN_ANY_RID = 1        /* take records of any file id */
};

typedef struct {
    uint64_t start_offset;
    uint64_t stop_offset;
    int32_t rid;     /* low 31 bits of the file id */
    uint8_t version; /* format version: 1 has no compact count */
    uint8_t flags;   /* JFS_SCAN_* */
} jfs_scan_options;

typedef struct {
    jfs_record *records;
    jfs_gap *gaps;
    uint32_t count;
    uint32_t capacity;
    uint32_t gap_count;
    uint32_t gap_capacity;
    uint32_t end_offset; /* behind the last valid record; start_offset if there is none */
    uint8_t marked;      /* something was found that makes it a data file even without a record */
} jfs_scan;

/* Scans bytes[start_offset, stop_offset). *out is overwritten; free it with jfs_scan_free whatever the status.
 * JFS_RANGE: the options are not within the file, or the file is larger than the 4 GiB that offsets can say.
 */
jfs_status jfs_scan_journal(const uint8_t *bytes, uint64_t size_bytes, const jfs_scan_options *options,
                            jfs_scan *out);
void jfs_scan_free(jfs_scan *scan);

#endif
