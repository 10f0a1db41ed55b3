/* Checksums of journalfs in a broker's journal: EVENT records, which no broker looks at, each covering the stretch of
 * the file before it. Layout: docs/format/checksums.md.
 */
#ifndef JFS_CHECKSUM_H
#define JFS_CHECKSUM_H

#include <stdint.h>

#include "jfs_scan.h"
#include "jfs_stage.h"
#include "jfs_status.h"

enum { JFS_CHECKSUM_RECORD_BYTES = 51, JFS_CHECKSUM_USER_TYPE = 99 };

/* Which file a checksum is in, and how far the file before it had been written when this one was begun.
 * previous_id 0: not known; JFS_CHECKSUM_REWRITTEN: this file was written by compaction.
 */
enum { JFS_CHECKSUM_REWRITTEN = -1 };
typedef struct {
    int64_t file_id;
    int64_t previous_id;
    uint32_t previous_end;
} jfs_checksum_place;

/* Writes the record that covers `length` bytes which lie at file_offset, right before it. */
void jfs_checksum_record(uint8_t *to, const uint8_t *stretch, uint32_t file_offset, uint32_t length,
                         const jfs_checksum_place *place);

/* Appends the record that covers all that is staged, whatever room the stage was given. JFS_FULL: the buffer has none. */
jfs_status jfs_stage_checksum(jfs_stage *stage, const jfs_checksum_place *place);

/* A stretch that is not what it was when its checksum was written. length 0: the checksum record itself says nothing
 * that could be.
 */
typedef struct {
    uint32_t offset;
    uint32_t length;
    uint32_t record_offset;
} jfs_mismatch;

typedef struct {
    int64_t previous_id; /* of the first checksum that names a file; 0: none does */
    uint32_t previous_end;
    uint32_t checked;    /* checksums that were right */
    uint8_t rewritten;   /* compaction wrote the file */
} jfs_checksum_summary;

/* Checks what checksums among the records of a scan cover. JFS_FULL: more mismatches than room; *count is how many. */
jfs_status jfs_checksum_check(const uint8_t *bytes, uint64_t size_bytes, const jfs_record *records,
                              uint32_t record_count, int64_t file_id, jfs_mismatch *out, uint32_t capacity,
                              uint32_t *count, jfs_checksum_summary *summary);

#endif
