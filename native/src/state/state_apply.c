/* What each record does to the live set. */
#include "bytes.h"
#include "jfs_guard.h"
#include "state_internal.h"

/* User record types of the message journal that are about messages and references. */
enum {
    TYPE_ADD_LARGE = 30,
    TYPE_ADD_REF = 32,
    TYPE_ACKNOWLEDGE = 33,
    TYPE_DELIVERY_COUNT = 34,
    TYPE_PAGE_TX = 35,
    TYPE_SCHEDULE = 36,
    TYPE_ADD_MESSAGE = 45
};

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
        case TYPE_ADD_REF:
        case TYPE_ACKNOWLEDGE: return (layout){8, 0, 0, 8};
        case TYPE_DELIVERY_COUNT:
        case TYPE_PAGE_TX: return (layout){8, 4, 0, 12};
        case TYPE_SCHEDULE: return (layout){8, 8, 0, 16};
        case 29: return (layout){8, 0, 0, 8};  /* pending large message */
        case 39:                               /* cursor acknowledgement */
        case 42: return (layout){8, 8, 4, 20}; /* page complete */
        case 40: return (layout){8, 8, 8, 16}; /* page counter; old ones lack the bytes */
        case 41: return (layout){8, 4, 8, 12}; /* page counter increment; the same */
        case 43: return (layout){8, 8, 0, 16}; /* pending page counter */
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

jfs_status anomaly_add(jfs_state *state, uint32_t kind, int64_t a, int64_t b, uint32_t file_slot, uint32_t offset) {
    jfs_status status = JFS_OK;
    if (state->history && kind != JFS_ANOMALY_IN_DAMAGE && kind != JFS_ANOMALY_SHORT_RECORD) return JFS_OK;
    state->anomalies_seen++;
    /* Most turn out to be ends of messages whose beginnings were reclaimed: what are too many is seen afterwards. */
    status = VECTOR_ROOM(&state->anomalies);
    if (status == JFS_OK) state->anomalies.items[state->anomalies.count++] = (jfs_anomaly){a, b, kind, file_slot, offset};
    return status;
}

static jfs_status unknown(jfs_state *state, uint32_t kind, const jfs_operation *op) {
    return anomaly_add(state, kind, op->record_id, op->a, op->file_slot, op->body_offset);
}

static jfs_status apply_reference(jfs_state *state, const jfs_operation *op) {
    const uint32_t message = message_of_operation(state, op);
    const int was_there = op->user_type == TYPE_ACKNOWLEDGE && op->b == ACK_OF_FOUND;
    uint32_t slot, ref;
    jfs_status status = JFS_OK;
    if (op->user_type == TYPE_ADD_REF) {
        /* The broker, too, loses a reference that comes before its message. */
        if (message == JFS_NONE) return unknown(state, JFS_ANOMALY_REF_OF_UNKNOWN, op);
        status = queue_slot(state, op->a, &slot);
        return status == JFS_OK ? ref_add(state, message, slot) : status;
    }
    if (message == JFS_NONE) {
        if (was_there) return JFS_OK;
        return unknown(state, op->user_type == TYPE_ACKNOWLEDGE ? JFS_ANOMALY_ACK_OF_UNKNOWN
                                                                : JFS_ANOMALY_UPDATE_OF_UNKNOWN, op);
    }
    slot = queue_find(state, op->a);
    ref = slot == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
    if (op->user_type != TYPE_ACKNOWLEDGE) {
        /* Compaction writes these last, so the reference may be acknowledged already: nothing unusual. */
        return ref == JFS_NONE ? JFS_OK : ref_decorate(state, ref, op->user_type, op->b);
    }
    if (ref == JFS_NONE) return was_there ? JFS_OK : unknown(state, JFS_ANOMALY_ACK_WITHOUT_REF, op);
    ref_remove(state, ref);
    return JFS_OK;
}

static jfs_status apply_delete(jfs_state *state, int64_t id) {
    const uint32_t message = message_find(state, id);
    if (message != JFS_NONE) message_remove(state, message);
    side_remove(state, id);
    return state->finished && state->anomalies.count == 0 ? JFS_OK : id_set_add(&state->deleted, id);
}

jfs_status effect_apply(jfs_state *state, const jfs_operation *effect) {
    if (state->history) return history_apply(state, effect);
    if (effect->kind == JFS_DELETE) return apply_delete(state, effect->record_id);
    switch (effect->user_type) {
        case TYPE_ADD_LARGE:
        case TYPE_ADD_MESSAGE: return message_add(state, effect);
        case TYPE_ADD_REF:
        case TYPE_ACKNOWLEDGE:
        case TYPE_DELIVERY_COUNT:
        case TYPE_SCHEDULE: return apply_reference(state, effect);
        case TYPE_PAGE_TX:
            if (effect->kind == JFS_UPDATE) return side_update(state, effect);
            return side_add(state, effect);
        default: return side_add(state, effect);
    }
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
