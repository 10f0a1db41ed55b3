/* Messages of whose records the disk gives only a part. */
#include "jfs_state_batch.h"
#include "state_internal.h"

static jfs_status measure_again(jfs_state *state, uint32_t message) {
    message_item *const m = &state->messages.items[message];
    jfs_status status = JFS_OK;
    if (m->state & MESSAGE_MEASURED) state->unmeasured++;
    m->state &= (uint8_t)~(MESSAGE_MEASURED | MESSAGE_LARGE_SOURCE);
    if (!state->finished || state->measure_all) return JFS_OK;
    status = VECTOR_ROOM(&state->pending);
    if (status == JFS_OK) state->pending.items[state->pending.count++] = message;
    return status;
}

jfs_status jfs_state_unreadable(jfs_state *state, uint32_t file_slot, uint64_t from, uint64_t to) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < state->messages.count && status == JFS_OK; i++) {
        message_item *const m = &state->messages.items[i];
        if (!(m->state & MESSAGE_USED) || m->file_slot != file_slot || m->source & JFS_SOURCE_UNREADABLE) continue;
        if (m->body_offset >= to || (uint64_t)m->body_offset + m->body_bytes <= from) continue;
        m->source |= JFS_SOURCE_UNREADABLE;
        status = measure_again(state, i);
    }
    return status;
}
