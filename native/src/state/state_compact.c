/* Closing up the arrays after the load, when most of what was in them is gone. No index from before stays valid. */
#include "state_internal.h"

static jfs_status map_new(uint32_t **map, uint32_t count) {
    *map = malloc(count == 0 ? 1 : (size_t)count * sizeof **map);
    return *map == NULL ? JFS_NO_MEMORY : JFS_OK;
}

static uint32_t moved(const uint32_t *map, uint32_t index) { return index == JFS_NONE ? JFS_NONE : map[index]; }

static void close_messages(jfs_state *state, uint32_t *map) {
    uint32_t to = 0;
    for (uint32_t from = 0; from < state->messages.count; from++) {
        map[from] = JFS_NONE;
        if (!(state->messages.items[from].state & MESSAGE_USED)) continue;
        map[from] = to;
        state->messages.items[to++] = state->messages.items[from];
    }
    state->messages.count = to;
    state->free_message = JFS_NONE;
}

static void close_refs(jfs_state *state, uint32_t *map) {
    uint32_t to = 0;
    for (uint32_t from = 0; from < state->refs.count; from++) {
        map[from] = JFS_NONE;
        if (state->refs.items[from].state == REF_FREE) continue;
        map[from] = to;
        state->refs.items[to++] = state->refs.items[from];
    }
    state->refs.count = to;
    state->free_ref = JFS_NONE;
}

static void rename_all(jfs_state *state, const uint32_t *messages, const uint32_t *refs) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        state->messages.items[i].first_ref = moved(refs, state->messages.items[i].first_ref);
    }
    for (uint32_t i = 0; i < state->refs.count; i++) {
        ref_item *const r = &state->refs.items[i];
        r->message = messages[r->message];
        r->next = moved(refs, r->next);
        r->prev = moved(refs, r->prev);
    }
    for (uint32_t i = 0; i < state->queues.count; i++) {
        queue_item *const queue = &state->queues.items[i];
        for (uint32_t k = 0; k < queue->arrival.count; k++) {
            queue->arrival.items[k] = moved(refs, queue->arrival.items[k]);
        }
        queue_compact(state, queue);
        parts_compact(queue);
    }
    for (uint32_t i = 0; i < state->pending.count; i++) {
        const uint32_t message = messages[state->pending.items[i]];
        if (message != JFS_NONE) state->pending.items[to++] = message;
    }
    state->pending.count = to;
}

static jfs_status close_decors(jfs_state *state) {
    VECTOR(decor_item) fresh = {NULL, 0, 0};
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < state->refs.count && status == JFS_OK; i++) {
        ref_item *const r = &state->refs.items[i];
        if (r->decor == 0) continue;
        if (fresh.count == 0) {
            status = VECTOR_ROOM(&fresh);
            if (status != JFS_OK) break;
            memset(&fresh.items[fresh.count++], 0, sizeof(decor_item));
        }
        status = VECTOR_ROOM(&fresh);
        if (status != JFS_OK) break;
        fresh.items[fresh.count] = state->decors.items[r->decor];
        r->decor = fresh.count++ & DECOR_MAX;
    }
    free(state->decors.items);
    state->decors.items = fresh.items;
    state->decors.count = fresh.count;
    state->decors.capacity = fresh.capacity;
    state->free_decor = 0;
    return status;
}

static jfs_status index_again(jfs_state *state) {
    jfs_status status;
    index_clear(&state->message_index);
    index_clear(&state->wide_index);
    state->wides.count = 0;
    state->free_wide = JFS_NONE;
    status = index_fill(&state->message_index, state->messages.items, sizeof(message_item), state->messages.count, 1);
    for (uint32_t i = 0; i < state->refs.count && status == JFS_OK; i++) {
        if (state->messages.items[state->refs.items[i].message].state & MESSAGE_WIDE) status = wide_add(state, i);
    }
    return status;
}

void state_shrink(jfs_state *state) {
    VECTOR_SHRINK(&state->messages);
    VECTOR_SHRINK(&state->refs);
    VECTOR_SHRINK(&state->decors);
    VECTOR_SHRINK(&state->wides);
    VECTOR_SHRINK(&state->queues);
    for (uint32_t i = 0; i < state->queues.count; i++) {
        VECTOR_SHRINK(&state->queues.items[i].arrival);
        VECTOR_SHRINK(&state->queues.items[i].parts);
    }
    VECTOR_SHRINK(&state->pending);
    VECTOR_SHRINK(&state->expiries);
    VECTOR_SHRINK(&state->schedules);
    VECTOR_SHRINK(&state->sides);
    VECTOR_SHRINK(&state->ops);
    VECTOR_SHRINK(&state->txs);
    VECTOR_SHRINK(&state->anomalies);
}

jfs_status state_compact(jfs_state *state) {
    uint32_t *messages = NULL, *refs = NULL;
    jfs_status status = map_new(&messages, state->messages.count);
    if (status == JFS_OK) status = map_new(&refs, state->refs.count);
    if (status != JFS_OK) goto done;
    close_messages(state, messages);
    close_refs(state, refs);
    rename_all(state, messages, refs);
    status = close_decors(state);
    if (status == JFS_OK) status = index_again(state);
    if (status == JFS_OK) status = side_compact(state);
    if (status == JFS_OK && state->open_txs == 0) {
        state->ops.count = state->txs.count = 0;
        state->free_op = state->free_tx = JFS_NONE;
        index_clear(&state->tx_index);
    }
    if (status == JFS_OK) state_shrink(state);
done:
    free(messages);
    free(refs);
    return status;
}
