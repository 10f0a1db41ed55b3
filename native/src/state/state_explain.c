/* What keeps a journal file: one pass over the messages, whose records lie in the order of the array. */
#include "jfs_state_explain.h"

#include "state_internal.h"

static void share_add(jfs_queue_share *share, const message_item *message, int delivering) {
    share->messages++;
    share->delivering += delivering != 0;
    share->body_bytes += message->body_bytes;
    if (message->timestamp_ms > 0 && (share->oldest_ms == 0 || message->timestamp_ms < share->oldest_ms)) {
        share->oldest_ms = message->timestamp_ms;
    }
}

/* One share for each queue slot; returns how many messages any queue has. */
static uint32_t shares_fill(const jfs_state *state, uint32_t file_slot, jfs_queue_share *shares) {
    uint32_t referenced = 0;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const message = &state->messages.items[i];
        if (!(message->state & MESSAGE_USED) || message->file_slot != file_slot) continue;
        referenced += message->first_ref != JFS_NONE && !(state->refs.items[message->first_ref].queue & COMING);
        for (uint32_t ref = message->first_ref; ref != JFS_NONE; ref = state->refs.items[ref].next) {
            const ref_item *const r = &state->refs.items[ref];
            if (!(r->queue & COMING)) share_add(&shares[r->queue], message, r->state == REF_DELIVERING);
        }
    }
    return referenced;
}

jfs_status jfs_state_explain_queues(const jfs_state *state, uint32_t file_slot, jfs_queue_share *out,
                                    uint32_t capacity, uint32_t *count, uint32_t *referenced) {
    const uint32_t queues = state->queues.count;
    jfs_queue_share *const shares = calloc(queues == 0 ? 1 : queues, sizeof *shares);
    uint32_t found = 0;
    *count = 0;
    if (shares == NULL) return JFS_NO_MEMORY;
    *referenced = shares_fill(state, file_slot, shares);
    for (uint32_t i = 0; i < queues; i++) {
        if (shares[i].messages == 0) continue;
        shares[i].queue_id = state->queues.items[i].queue_id;
        if (found < capacity) out[found] = shares[i];
        found++;
    }
    free(shares);
    return listed(found, capacity, count);
}

void jfs_state_explain_others(const jfs_state *state, uint32_t file_slot, uint32_t *by_type) {
    memset(by_type, 0, JFS_USER_TYPES * sizeof *by_type);
    for (uint32_t i = 0; i < state->sides.count; i++) {
        const jfs_operation *const op = &state->sides.items[i].op;
        if (op->kind != 0 && op->file_slot == file_slot) by_type[(uint8_t)op->user_type]++;
    }
}

static uint32_t operations_in(const jfs_state *state, const tx_item *tx, uint32_t file_slot) {
    uint32_t found = 0;
    for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
        found += state->ops.items[op].op.file_slot == file_slot;
    }
    return found;
}

jfs_status jfs_state_explain_txs(const jfs_state *state, uint32_t file_slot, jfs_tx_share *out, uint32_t capacity,
                                 uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->txs.count; i++) {
        const tx_item *const tx = &state->txs.items[i];
        uint32_t operations;
        if (!tx->used) continue;
        operations = operations_in(state, tx, file_slot);
        if (operations == 0) continue;
        if (found < capacity) out[found] = (jfs_tx_share){tx->tx_id, operations, tx->flags};
        found++;
    }
    return listed(found, capacity, count);
}
