/* What each record does to the live set. */
#include "bytes.h"
#include "jfs_guard.h"
#include "state_internal.h"

/* Bytes at the start of a body that hold its fixed numbers, at most; and how many records are decoded at a time. */
enum { HEAD_BYTES = 24, CHUNK = 256 };

/* Operations of long transactions taken back with each call: about a millisecond. */
enum { SETTLED_MAX = 8192 };

/* Where a type keeps its numbers: 8 or 4 bytes each, in this order; 0: no such number. */
typedef struct {
    uint8_t a, b, c;
    uint8_t required; /* bytes without which the record says nothing */
} layout;

static layout layout_of(int user_type) {
    switch (user_type) {
        case TYPE_ADD_REFERENCE:
        case TYPE_ACKNOWLEDGE_REFERENCE: return (layout){8, 0, 0, 8};
        case TYPE_DELIVERY_COUNT:
        case TYPE_PAGE_TRANSACTION: return (layout){8, 4, 0, 12};
        case TYPE_SCHEDULED_TIME: return (layout){8, 8, 0, 16};
        case TYPE_LARGE_MESSAGE_PENDING: return (layout){8, 0, 0, 8};
        case TYPE_ACKNOWLEDGE_CURSOR:
        case TYPE_PAGE_COMPLETE: return (layout){8, 8, 4, 20};
        case TYPE_PAGE_COUNTER_VALUE: return (layout){8, 8, 8, 16};     /* old ones lack the bytes */
        case TYPE_PAGE_COUNTER_INCREMENT: return (layout){8, 4, 8, 12}; /* the same */
        case TYPE_PAGE_COUNTER_PENDING: return (layout){8, 8, 0, 16};
        default: return (layout){0, 0, 0, 0};
    }
}

static int64_t take(const uint8_t *head, uint32_t head_bytes, uint32_t *at, uint8_t width) {
    int64_t value = 0;
    if (width != 0 && *at + width <= head_bytes) value = width == 8 ? load_i64(head + *at) : load_i32(head + *at);
    *at += width;
    return value;
}

/* False: the body is too short for its type. */
static int decode_numbers(jfs_operation *op, const uint8_t *head) {
    const layout fields = layout_of(op->user_type);
    const uint32_t head_bytes = op->body_bytes < HEAD_BYTES ? op->body_bytes : HEAD_BYTES;
    uint32_t at = 0;
    op->a = take(head, head_bytes, &at, fields.a);
    op->b = take(head, head_bytes, &at, fields.b);
    op->c = take(head, head_bytes, &at, fields.c);
    return op->body_bytes >= fields.required;
}

static uint8_t effect_kind(uint8_t kind) {
    switch (kind) {
        case JFS_ADD:
        case JFS_ADD_TX: return JFS_ADD;
        case JFS_UPDATE:
        case JFS_UPDATE_TX: return JFS_UPDATE;
        default: return JFS_DELETE;
    }
}

static jfs_status apply_record(jfs_state *state, uint32_t file_slot, const jfs_record *record, const uint8_t *head) {
    const int is_event = record->kind == JFS_EVENT;
    const int is_tx = !is_event && record->kind != JFS_ADD && record->kind != JFS_UPDATE && record->kind != JFS_DELETE;
    const int has_type = record->kind <= JFS_UPDATE_TX;
    jfs_operation op = {.record_id = record->record_id,
                        .file_slot = file_slot,
                        .body_offset = record->body_offset,
                        .body_bytes = record->body_bytes,
                        .kind = is_event ? history_effect(record) : effect_kind(record->kind),
                        .user_type = record->user_type};
    jfs_status status = JFS_OK;
    /* Compaction copies records: the one that was written first is what was sent. */
    if (state->history && record->compact_count > 0 && op.kind == JFS_ADD &&
        message_find(state, op.record_id) != JFS_NONE) {
        op.kind = 0;
    }
    if (is_event && (!state->history || op.kind == 0)) return JFS_OK;
    if (record->flags & JFS_RECORD_IN_DAMAGE) {
        status = anomaly_add(state, JFS_ANOMALY_IN_DAMAGE, record->record_id, record->kind, file_slot, record->offset);
        if (status != JFS_OK) return status;
    }
    if (has_type) {
        if (record->record_id > state->highest_id) state->highest_id = record->record_id;
        if (!decode_numbers(&op, head)) {
            status = anomaly_add(state, JFS_ANOMALY_SHORT_RECORD, record->record_id, record->user_type, file_slot,
                                 record->offset);
            if (status != JFS_OK) return status;
            op.kind = 0; /* counts in its transaction, does nothing */
        }
    }
    if (is_tx) return tx_record(state, file_slot, record, &op);
    return op.kind == 0 ? JFS_OK : effect_apply(state, &op);
}

typedef struct {
    const jfs_span *file;
    const jfs_record *records;
    uint32_t count;
    uint8_t (*heads)[HEAD_BYTES];
} heads_job;

/* Copies out what will be decoded, so that nothing is half applied when the file shrinks. */
static jfs_status copy_heads(void *context) {
    const heads_job *const job = context;
    for (uint32_t i = 0; i < job->count; i++) {
        const jfs_record *const record = &job->records[i];
        const uint32_t length = record->body_bytes < HEAD_BYTES ? record->body_bytes : HEAD_BYTES;
        if (record->kind > JFS_UPDATE_TX || layout_of(record->user_type).a == 0) continue;
        if ((uint64_t)record->body_offset + record->body_bytes > job->file->size_bytes) return JFS_RANGE;
        memcpy(job->heads[i], job->file->bytes + record->body_offset, length);
    }
    return JFS_OK;
}

/* Whoever goes on from where it left off may miss a file that was filled, consumed and reclaimed meanwhile. */
static void settle_anomalies(jfs_state *state) {
    if (state->anomalies.count == 0) return;
    anomalies_sweep(state);
    id_set_free(&state->deleted);
    if (state->anomalies.count > JFS_ANOMALIES_MAX) state->anomalies.count = JFS_ANOMALIES_MAX;
}

jfs_status jfs_state_apply(jfs_state *state, uint32_t file_slot, const jfs_span *file, const jfs_record *records,
                           uint32_t count) {
    uint8_t heads[CHUNK][HEAD_BYTES];
    jfs_status status = JFS_OK;
    for (uint32_t done = 0; done < count && status == JFS_OK; done += CHUNK) {
        const uint32_t here = count - done < CHUNK ? count - done : CHUNK;
        heads_job job = {file, records + done, here, heads};
        status = jfs_guarded(copy_heads, &job);
        for (uint32_t i = 0; i < here && status == JFS_OK; i++) {
            status = apply_record(state, file_slot, &records[done + i], heads[i]);
        }
    }
    if (state->finished) settle_anomalies(state);
    jfs_state_settle(state, SETTLED_MAX);
    return status;
}
