/* Checksums over stretches of a journal file: written behind them, checked when the file is read. */
#include "jfs_checksum.h"

#include <string.h>

#include "bytes.h"
#include "jfs_crc32c.h"
#include "jfs_encode.h"
#include "jfs_guard.h"

enum {
    MAGIC = 0x4A465331, /* "JFS1" */
    AT_OFFSET = 4,
    AT_LENGTH = 8,
    AT_PREVIOUS_ID = 12,
    AT_PREVIOUS_END = 20,
    AT_CRC = 24,
    BODY_BYTES = 28
};

/* The file's id is under the checksum without being in the body: a stretch is right in one file only. */
static uint32_t crc_of(int64_t file_id, const uint8_t *body, const uint8_t *stretch, uint32_t length) {
    uint8_t id[8];
    uint32_t crc;
    store_u64(id, (uint64_t)file_id);
    crc = jfs_crc32c(0, id, sizeof id);
    crc = jfs_crc32c(crc, body, AT_CRC);
    return jfs_crc32c(crc, stretch, length);
}

void jfs_checksum_record(uint8_t *to, const uint8_t *stretch, uint32_t file_offset, uint32_t length,
                         const jfs_checksum_place *place) {
    uint8_t body[BODY_BYTES];
    uint64_t used;
    uint32_t done;
    const jfs_new_record record = {
        .body = body, .body_bytes = BODY_BYTES, .kind = JFS_EVENT, .user_type = JFS_CHECKSUM_USER_TYPE};
    store_u32(body, MAGIC);
    store_u32(body + AT_OFFSET, file_offset);
    store_u32(body + AT_LENGTH, length);
    store_u64(body + AT_PREVIOUS_ID, (uint64_t)place->previous_id);
    store_u32(body + AT_PREVIOUS_END, place->previous_end);
    store_u32(body + AT_CRC, crc_of(place->file_id, body, stretch, length));
    jfs_encode(to, JFS_CHECKSUM_RECORD_BYTES, (int32_t)(place->file_id & 0x7fffffff), &record, 1, &used, &done);
}

jfs_status jfs_stage_checksum(jfs_stage *stage, const jfs_checksum_place *place) {
    if (stage->buffer_bytes - stage->used_bytes < JFS_CHECKSUM_RECORD_BYTES) return JFS_FULL;
    jfs_checksum_record(stage->bytes + stage->used_bytes, stage->bytes, (uint32_t)stage->file_offset,
                        (uint32_t)stage->used_bytes, place);
    stage->used_bytes += JFS_CHECKSUM_RECORD_BYTES;
    return JFS_OK;
}

typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
    const jfs_record *records;
    uint32_t record_count;
    int64_t file_id;
    jfs_mismatch *out;
    uint32_t capacity;
    uint32_t found;
    jfs_checksum_summary *summary;
} check_job;

static void mismatch(check_job *job, uint32_t offset, uint32_t length, uint32_t record_offset) {
    if (job->found < job->capacity) job->out[job->found] = (jfs_mismatch){offset, length, record_offset};
    job->found++;
}

static void check_one(check_job *job, const jfs_record *record) {
    const uint8_t *const body = job->bytes + record->body_offset;
    const uint32_t offset = load_u32(body + AT_OFFSET), length = load_u32(body + AT_LENGTH);
    const int64_t previous_id = load_i64(body + AT_PREVIOUS_ID);
    if (offset > record->offset || record->offset - offset != length) {
        mismatch(job, record->offset, 0, record->offset);
        return;
    }
    if (crc_of(job->file_id, body, job->bytes + offset, length) != load_u32(body + AT_CRC)) {
        mismatch(job, offset, length, record->offset);
        return;
    }
    job->summary->checked++;
    if (previous_id == JFS_CHECKSUM_REWRITTEN) {
        job->summary->rewritten = 1;
    } else if (previous_id != 0 && job->summary->previous_id == 0) {
        job->summary->previous_id = previous_id;
        job->summary->previous_end = load_u32(body + AT_PREVIOUS_END);
    }
}

static jfs_status check_body(void *context) {
    check_job *const job = context;
    for (uint32_t i = 0; i < job->record_count; i++) {
        const jfs_record *const record = &job->records[i];
        if (record->kind != JFS_EVENT || record->user_type != JFS_CHECKSUM_USER_TYPE) continue;
        if (record->body_bytes != BODY_BYTES || (uint64_t)record->offset + record->length > job->size_bytes) continue;
        if (load_u32(job->bytes + record->body_offset) == MAGIC) check_one(job, record);
    }
    return JFS_OK;
}

jfs_status jfs_checksum_check(const uint8_t *bytes, uint64_t size_bytes, const jfs_record *records,
                              uint32_t record_count, int64_t file_id, jfs_mismatch *out, uint32_t capacity,
                              uint32_t *count, jfs_checksum_summary *summary) {
    check_job job = {bytes, size_bytes, records, record_count, file_id, out, capacity, 0, summary};
    jfs_status status;
    memset(summary, 0, sizeof *summary);
    status = jfs_guarded(check_body, &job);
    *count = job.found;
    if (status != JFS_OK) return status;
    return job.found > capacity ? JFS_FULL : JFS_OK;
}
