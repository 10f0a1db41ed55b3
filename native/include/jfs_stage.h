/* Records on their way into one journal file: encoded in an aligned buffer, taken into account, not yet written. */
#ifndef JFS_STAGE_H
#define JFS_STAGE_H

#include <stdint.h>

#include "jfs_encode.h"
#include "jfs_ledger.h"
#include "jfs_status.h"

enum { JFS_STAGE_ALIGNMENT = 4096 };

typedef struct {
    uint8_t *bytes;       /* aligned as direct I/O wants it */
    uint64_t buffer_bytes;
    uint64_t room_bytes;  /* what of the buffer the file has room for */
    uint64_t used_bytes;
    uint64_t file_offset; /* where the buffer's first byte goes */
    jfs_record *records;  /* what was staged, with offsets in the file */
    uint32_t record_count;
    uint32_t record_room;
    uint32_t slot;
    int32_t rid;
} jfs_stage;

/* How far messages that are staged together came: `message` are whole, and of the next one `step` records. */
typedef struct {
    uint32_t message;
    uint32_t step;
    uint64_t records;      /* staged by this call */
    uint64_t needed_bytes; /* JFS_FULL: room that the next record may need */
} jfs_batch_progress;

/* buffer_bytes is rounded up to whole blocks. */
jfs_status jfs_stage_new(jfs_stage **out, uint64_t buffer_bytes);
void jfs_stage_free(jfs_stage *stage);

/* What is wrong with the stage as a whole; NULL: nothing. For tests and fuzzers. */
const char *jfs_stage_check(const jfs_stage *stage);


/* Empties the buffer for bytes that go to file_offset of a file with that many bytes of room there. */
void jfs_stage_begin(jfs_stage *stage, uint32_t slot, int32_t rid, uint64_t file_offset, uint64_t room_bytes);

/* Checks, encodes and takes into account. The counts of PREPARE and COMMIT are filled in. JFS_FULL: it does not fit;
 * else as jfs_ledger_allows says. Then nothing was done.
 */
jfs_status jfs_stage_one(jfs_stage *stage, jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id,
                         int8_t user_type, const uint8_t *body, uint32_t body_bytes);

/* Zeros up to a multiple of alignment_bytes; returns the length to be written, 0 where the buffer has no room for it. */
uint64_t jfs_stage_seal(jfs_stage *stage, uint64_t alignment_bytes);

#endif
