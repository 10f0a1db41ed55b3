/* Writing records: the layouts of docs/format/records.md, format version 2. */
#ifndef JFS_ENCODE_H
#define JFS_ENCODE_H

#include <stdint.h>

#include "jfs_scan.h"
#include "jfs_status.h"

/* A record to be written. Fields that its kind does not have are ignored. */
typedef struct {
    const uint8_t *body; /* PREPARE: the extra data */
    int64_t tx_id;
    int64_t record_id;
    uint32_t body_bytes;
    int32_t count; /* PREPARE, COMMIT: records of the transaction in the same file */
    uint8_t kind;
    int8_t user_type;
    int8_t compact_count;
} jfs_new_record;

/* Whole length of a record of that kind, 0 for what is no kind. */
uint64_t jfs_record_bytes(uint8_t kind, uint64_t body_bytes);

/* Writes the records one behind the other. *used: bytes written, *done: records written; when the next one does not
 * fit in room_bytes the status is JFS_FULL. JFS_MALFORMED: no kind, or longer than an i32 can say.
 */
jfs_status jfs_encode(uint8_t *to, uint64_t room_bytes, int32_t rid, const jfs_new_record *records, uint32_t count,
                      uint64_t *used, uint32_t *done);

/* Copies a valid record of a mapped file of format `version` for a file of another rid as version 2, with this compact
 * count and, for PREPARE and COMMIT, this count of records. JFS_FULL when it does not fit.
 */
jfs_status jfs_record_copy(uint8_t *to, uint64_t room_bytes, const uint8_t *file_bytes, const jfs_record *record,
                           uint8_t version, int32_t rid, int8_t compact_count, int32_t count,
                           uint64_t *used);

#endif
