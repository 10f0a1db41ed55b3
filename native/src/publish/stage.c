/* Staging: one buffer's worth of records for one file. */
#include "jfs_stage.h"

#include "jfs_assert.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS_FIRST = 64 };

jfs_status jfs_stage_new(jfs_stage **out, uint64_t buffer_bytes) {
    const uint64_t blocks = (buffer_bytes + JFS_STAGE_ALIGNMENT - 1) / JFS_STAGE_ALIGNMENT;
    jfs_stage *const stage = calloc(1, sizeof *stage);
    if (stage == NULL) return JFS_NO_MEMORY;
    stage->buffer_bytes = (blocks == 0 ? 1 : blocks) * JFS_STAGE_ALIGNMENT;
    stage->bytes = aligned_alloc(JFS_STAGE_ALIGNMENT, (size_t)stage->buffer_bytes);
    if (stage->bytes == NULL) {
        free(stage);
        return JFS_NO_MEMORY;
    }
    *out = stage;
    return JFS_OK;
}

void jfs_stage_free(jfs_stage *stage) {
    if (stage == NULL) return;
    free(stage->records);
    free(stage->bytes);
    free(stage);
}

const char *jfs_stage_check(const jfs_stage *stage) {
    uint64_t at = stage->file_offset;
    JFS_HOLDS(stage->used_bytes <= stage->room_bytes && stage->room_bytes <= stage->buffer_bytes);
    JFS_HOLDS(stage->record_count <= stage->record_room);
    for (uint32_t i = 0; i < stage->record_count; i++) {
        JFS_HOLDS(stage->records[i].offset >= at);
        at = (uint64_t)stage->records[i].offset + stage->records[i].length;
    }
    JFS_HOLDS(at <= stage->file_offset + stage->used_bytes);
    return NULL;
}

void jfs_stage_begin(jfs_stage *stage, uint32_t slot, int32_t rid, uint64_t file_offset, uint64_t room_bytes) {
    JFS_ASSERT(stage->bytes != NULL);
    stage->slot = slot;
    stage->rid = rid;
    stage->file_offset = file_offset;
    stage->room_bytes = room_bytes < stage->buffer_bytes ? room_bytes : stage->buffer_bytes;
    stage->used_bytes = 0;
    stage->record_count = 0;
}

static jfs_status records_grow(jfs_stage *stage) {
    const uint64_t wanted = stage->record_room == 0 ? RECORDS_FIRST : (uint64_t)stage->record_room * 2;
    jfs_record *grown;
    if (stage->record_count < stage->record_room) return JFS_OK;
    if (wanted > UINT32_MAX) return JFS_NO_MEMORY;
    grown = realloc(stage->records, (size_t)wanted * sizeof *grown);
    if (grown == NULL) return JFS_NO_MEMORY;
    stage->records = grown;
    stage->record_room = (uint32_t)wanted;
    return JFS_OK;
}

/* What a scan of the file would say of the record. */
static jfs_record scanned(const jfs_stage *stage, const jfs_new_record *record, uint64_t total) {
    JFS_ASSERT(total >= 4 && stage->used_bytes + total <= stage->room_bytes);
    const uint8_t kind = record->kind;
    const int has_body = kind <= JFS_DELETE_TX || kind == JFS_PREPARE;
    jfs_record out = {0};
    out.kind = kind;
    out.offset = (uint32_t)(stage->file_offset + stage->used_bytes);
    out.length = (uint32_t)total;
    out.body_bytes = has_body ? record->body_bytes : 0;
    out.body_offset = out.offset + out.length - 4 - out.body_bytes;
    if (kind >= JFS_ADD_TX && kind != JFS_DELETE) out.tx_id = record->tx_id;
    if (kind <= JFS_DELETE) out.record_id = record->record_id;
    if (kind <= JFS_UPDATE_TX) out.user_type = record->user_type;
    if (kind == JFS_PREPARE || kind == JFS_COMMIT) out.count = record->count;
    return out;
}

static jfs_status put_one(jfs_stage *stage, jfs_ledger *ledger, jfs_new_record record) {
    const uint64_t total = jfs_record_bytes(record.kind, record.body_bytes);
    jfs_status status;
    uint64_t used;
    uint32_t done;
    if (total == 0) return JFS_MALFORMED;
    if (total > stage->room_bytes - stage->used_bytes) return JFS_FULL;
    status = jfs_ledger_allows(ledger, record.kind, record.tx_id, record.record_id);
    if (status == JFS_OK) status = records_grow(stage);
    if (status != JFS_OK) return status;
    if (record.kind == JFS_PREPARE || record.kind == JFS_COMMIT) {
        record.count = (int32_t)jfs_ledger_count(ledger, record.tx_id, stage->slot);
    }
    record.compact_count = 0;
    stage->records[stage->record_count] = scanned(stage, &record, total);
    status = jfs_ledger_apply(ledger, stage->slot, &stage->records[stage->record_count], 1);
    if (status != JFS_OK) return status;
    status = jfs_encode(stage->bytes + stage->used_bytes, total, stage->rid, &record, 1, &used, &done);
    if (status != JFS_OK) return status;
    stage->record_count++;
    stage->used_bytes += total;
    return JFS_OK;
}

jfs_status jfs_stage_one(jfs_stage *stage, jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id,
                         int8_t user_type, const uint8_t *body, uint32_t body_bytes) {
    const jfs_new_record record = {.body = body,
                                   .tx_id = tx_id,
                                   .record_id = record_id,
                                   .body_bytes = body_bytes,
                                   .kind = kind,
                                   .user_type = user_type};
    return put_one(stage, ledger, record);
}

uint64_t jfs_stage_seal(jfs_stage *stage, uint64_t alignment_bytes) {
    JFS_ASSERT(alignment_bytes > 0);
    JFS_ASSERT(stage->used_bytes <= stage->room_bytes);
    const uint64_t padded = (stage->used_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    if (padded > stage->buffer_bytes) return 0;
    memset(stage->bytes + stage->used_bytes, 0, (size_t)(padded - stage->used_bytes));
    return padded;
}
