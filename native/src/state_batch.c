/* Questions about many references at once. */
#include "jfs_state_batch.h"

#include "state_internal.h"

static const message_item *message_of(const jfs_state *state, uint32_t ref) {
    if (ref >= state->refs.count || state->refs.items[ref].state == REF_FREE) return NULL;
    return &state->messages.items[state->refs.items[ref].message];
}

jfs_status jfs_state_ref_files(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *used,
                               uint32_t file_count) {
    for (uint32_t i = 0; i < count; i++) {
        const message_item *const message = message_of(state, refs[i]);
        if (message == NULL || message->file_slot >= file_count) return JFS_RANGE;
        used[message->file_slot] = 1;
    }
    return JFS_OK;
}

jfs_status jfs_state_large_refs(const jfs_state *state, const uint32_t *refs, uint32_t count, uint32_t *out,
                                uint32_t *found) {
    *found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const message_item *const message = message_of(state, refs[i]);
        if (message == NULL) return JFS_RANGE;
        /* Not JFS_MESSAGE_LARGE: zeros where a message was look like a large one, and were measured as they are. */
        if (message->state & MESSAGE_LARGE_SOURCE) out[(*found)++] = i;
    }
    return JFS_OK;
}
