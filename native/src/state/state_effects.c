/* What one operation that counts does to messages, references and side records. Called for plain records and, at
 * their commit, for the operations of transactions.
 */
#include "state_internal.h"

static jfs_status unknown(jfs_state *state, uint32_t kind, const jfs_operation *op) {
    return anomaly_add(state, kind, op->record_id, op->a, op->file_slot, op->body_offset);
}

static jfs_status apply_reference(jfs_state *state, const jfs_operation *op) {
    const uint32_t message = message_of_operation(state, op);
    const int was_there = op->user_type == TYPE_ACKNOWLEDGE_REFERENCE && op->b == ACK_OF_FOUND;
    uint32_t slot, ref;
    jfs_status status = JFS_OK;
    if (op->user_type == TYPE_ADD_REFERENCE) {
        /* The broker, too, loses a reference that comes before its message. */
        if (message == JFS_NONE) return unknown(state, JFS_ANOMALY_REF_OF_UNKNOWN, op);
        status = queue_slot(state, op->a, &slot);
        return status == JFS_OK ? ref_add(state, message, slot) : status;
    }
    if (message == JFS_NONE) {
        if (was_there) return JFS_OK;
        return unknown(state, op->user_type == TYPE_ACKNOWLEDGE_REFERENCE ? JFS_ANOMALY_ACK_OF_UNKNOWN
                                                                : JFS_ANOMALY_UPDATE_OF_UNKNOWN, op);
    }
    slot = queue_find(state, op->a);
    ref = slot == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
    if (op->user_type != TYPE_ACKNOWLEDGE_REFERENCE) {
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
    JFS_ASSERT(effect->kind == JFS_ADD || effect->kind == JFS_UPDATE || effect->kind == JFS_DELETE);
    if (state->history) return history_apply(state, effect);
    if (effect->kind == JFS_DELETE) return apply_delete(state, effect->record_id);
    switch (effect->user_type) {
        case TYPE_LARGE_MESSAGE:
        case TYPE_MESSAGE: return message_add(state, effect);
        case TYPE_ADD_REFERENCE:
        case TYPE_ACKNOWLEDGE_REFERENCE:
        case TYPE_DELIVERY_COUNT:
        case TYPE_SCHEDULED_TIME: return apply_reference(state, effect);
        case TYPE_PAGE_TRANSACTION:
            if (effect->kind == JFS_UPDATE) return side_update(state, effect);
            return side_add(state, effect);
        default: return side_add(state, effect);
    }
}
