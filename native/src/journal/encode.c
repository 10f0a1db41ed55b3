/* Writing records: docs/format/records.md. The inverse of scan.c. */
#include "jfs_encode.h"

#include <string.h>

#include "bytes.h"
#include "jfs_guard.h"

enum { KIND_FIRST = JFS_EVENT, KIND_LAST = JFS_ROLLBACK };

/* Bytes of a record of each kind besides its body. */
static const uint8_t fixed_of[] = {
    [JFS_EVENT - KIND_FIRST] = 23,     [JFS_ADD - KIND_FIRST] = 23,       [JFS_UPDATE - KIND_FIRST] = 23,
    [JFS_ADD_TX - KIND_FIRST] = 31,    [JFS_UPDATE_TX - KIND_FIRST] = 31, [JFS_DELETE_TX - KIND_FIRST] = 30,
    [JFS_DELETE - KIND_FIRST] = 18,    [JFS_PREPARE - KIND_FIRST] = 26,   [JFS_COMMIT - KIND_FIRST] = 22,
    [JFS_ROLLBACK - KIND_FIRST] = 18,
};

static int has_body(uint8_t kind) { return kind <= JFS_DELETE_TX || kind == JFS_PREPARE; }

static uint8_t *put_u8(uint8_t *at, uint8_t value) {
    *at = value;
    return at + 1;
}

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    store_u32(at, value);
    return at + 4;
}

uint64_t jfs_record_bytes(uint8_t kind, uint64_t body_bytes) {
    if (kind < KIND_FIRST || kind > KIND_LAST) return 0;
    return fixed_of[kind - KIND_FIRST] + (has_body(kind) ? body_bytes : 0);
}

static void encode_one(uint8_t *at, uint32_t total, int32_t rid, const jfs_new_record *record) {
    const uint8_t kind = record->kind;
    at = put_u8(at, kind);
    at = put_u32(at, (uint32_t)rid);
    at = put_u8(at, (uint8_t)record->compact_count);
    if (kind >= JFS_ADD_TX && kind != JFS_DELETE) at = put_i64(at, record->tx_id);
    if (kind <= JFS_DELETE) at = put_i64(at, record->record_id);
    if (kind == JFS_PREPARE || kind == JFS_COMMIT) at = put_u32(at, (uint32_t)record->count);
    if (has_body(kind)) {
        at = put_u32(at, record->body_bytes);
        if (kind <= JFS_UPDATE_TX) at = put_u8(at, (uint8_t)record->user_type);
        if (record->body_bytes > 0) memcpy(at, record->body, record->body_bytes);
        at += record->body_bytes;
    }
    put_u32(at, total);
}

jfs_status jfs_encode(uint8_t *to, uint64_t room_bytes, int32_t rid, const jfs_new_record *records, uint32_t count,
                      uint64_t *used, uint32_t *done) {
    *used = 0;
    for (*done = 0; *done < count; ++*done) {
        const jfs_new_record *const record = &records[*done];
        const uint64_t total = jfs_record_bytes(record->kind, record->body_bytes);
        if (total == 0 || total > INT32_MAX) return JFS_MALFORMED;
        if (room_bytes - *used < total) return JFS_FULL;
        encode_one(to + *used, (uint32_t)total, rid, record);
        *used += total;
    }
    return JFS_OK;
}

typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint32_t length;
} copy_job;

static jfs_status copy_body(void *context) {
    const copy_job *const job = context;
    memcpy(job->to, job->from, job->length);
    return JFS_OK;
}

jfs_status jfs_record_copy(uint8_t *to, uint64_t room_bytes, const uint8_t *file_bytes, const jfs_record *record,
                           uint8_t version, int32_t rid, int8_t compact_count, int32_t count, uint64_t *used) {
    /* Version 1 lacks the byte for the compact count; everything behind it is the same. */
    const uint32_t head = version >= 2 ? 6 : 5;
    const uint32_t total = record->length - head + 6;
    copy_job job = {to + 6, file_bytes + record->offset + head, total - 10};
    jfs_status status;
    if (room_bytes < total) return JFS_FULL;
    status = jfs_guarded(copy_body, &job);
    if (status != JFS_OK) return status;
    put_u8(put_u32(put_u8(to, record->kind), (uint32_t)rid), (uint8_t)compact_count);
    if (record->kind == JFS_PREPARE || record->kind == JFS_COMMIT) put_u32(to + 14, (uint32_t)count);
    put_u32(to + total - 4, total);
    *used = total;
    return JFS_OK;
}
