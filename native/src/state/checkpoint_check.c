/* Whether what a checkpoint refers to can be there at all: its own arrays were looked at when it was loaded, this looks at
 * the places in files.
 */
#include "checkpoint.h"

typedef struct {
    const uint64_t *ends;
    uint32_t count;
} file_ends;

static int lies_within(const file_ends *files, uint32_t slot, uint32_t offset, uint32_t bytes) {
    return slot < files->count && (uint64_t)offset + bytes <= files->ends[slot];
}

static int operation_lies_within(const file_ends *files, const jfs_operation *op) {
    return lies_within(files, op->file_slot, op->body_offset, op->body_bytes);
}

static int transaction_lies_within(const jfs_state *state, const file_ends *files, const tx_item *tx) {
    if (tx->flags != 0 && !lies_within(files, tx->file_slot, tx->extra_offset, tx->extra_bytes)) return 0;
    for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
        if (!operation_lies_within(files, &state->ops.items[op].op)) return 0;
    }
    return 1;
}

jfs_status jfs_state_lies_within(const jfs_state *state, const uint64_t *ends, uint32_t file_count) {
    const file_ends files = {ends, file_count};
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if (!(m->state & MESSAGE_USED)) continue;
        if (!lies_within(&files, m->file_slot, m->body_offset, m->body_bytes)) return JFS_MALFORMED;
    }
    for (uint32_t i = 0; i < state->refs.count; i++) {
        const ref_item *const r = &state->refs.items[i];
        if (r->state == REF_LIVE && r->part != 0 && !(state->messages.items[r->message].state & MESSAGE_MEASURED))
            return JFS_MALFORMED;
    }
    for (uint32_t i = 0; i < state->sides.count; i++) {
        const jfs_operation *const op = &state->sides.items[i].op;
        if (op->kind != 0 && !operation_lies_within(&files, op)) return JFS_MALFORMED;
    }
    for (uint32_t i = 0; i < state->txs.count; i++) {
        const tx_item *const tx = &state->txs.items[i];
        if (tx->used && !transaction_lies_within(state, &files, tx)) return JFS_MALFORMED;
    }
    return JFS_OK;
}
