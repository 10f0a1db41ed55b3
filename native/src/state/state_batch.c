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

jfs_status jfs_state_places(const jfs_state *state, uint32_t slot, int include, const int64_t *ids, uint32_t count,
                            uint32_t *refs, int64_t *scheduled_ms) {
    if (slot >= state->queues.count) return JFS_RANGE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t message = message_find(state, ids[i]);
        const ref_item *r;
        refs[i] = message == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
        scheduled_ms[i] = 0;
        if (refs[i] == JFS_NONE) continue;
        r = &state->refs.items[refs[i]];
        if (include == JFS_INCLUDE_LIVE && r->state != REF_LIVE) {
            refs[i] = JFS_NONE;
        } else if (r->decor != 0) {
            scheduled_ms[i] = state->decors.items[r->decor].scheduled_ms;
        }
    }
    return JFS_OK;
}

jfs_status jfs_state_keep_aside(jfs_state *state, uint32_t slot, const int64_t *ids, uint32_t count, int aside) {
    if (slot >= state->queues.count) return JFS_RANGE;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t message = message_find(state, ids[i]);
        const uint32_t ref = message == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
        if (ref == JFS_NONE) continue;
        if (aside) {
            ref_hide(state, ref);
        } else {
            ref_show(state, ref);
        }
    }
    return JFS_OK;
}

jfs_status jfs_state_message_flags(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *flags) {
    for (uint32_t i = 0; i < count; i++) {
        flags[i] = 0;
        if (refs[i] == JFS_NONE) continue;
        if (refs[i] >= state->refs.count || state->refs.items[refs[i]].state == REF_FREE) return JFS_RANGE;
        flags[i] = state->messages.items[state->refs.items[refs[i]].message].flags;
    }
    return JFS_OK;
}

void jfs_state_unreferenced(const jfs_state *state, const int64_t *ids, uint32_t count, uint8_t *found) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t message = message_find(state, ids[i]);
        const message_item *const m = message == JFS_NONE ? NULL : &state->messages.items[message];
        found[i] = 0;
        if (m != NULL && m->first_ref != JFS_NONE) continue;
        found[i] = JFS_UNREFERENCED;
        if (m == NULL || (m->state & MESSAGE_LARGE_SOURCE) || (m->source & JFS_SOURCE_CORE_LARGE)) {
            found[i] |= JFS_UNREFERENCED_LARGE;
        }
    }
}
