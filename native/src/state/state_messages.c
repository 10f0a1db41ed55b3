/* Messages: where each one's record lies and what a listing needs of it. */
#include "state_internal.h"

enum { PRIORITY_DEFAULT = 4 };

/* Where a message was when the operation came is where it mostly still is. */
uint32_t message_of_operation(const jfs_state *state, const jfs_operation *op) {
    const uint32_t seen = (uint32_t)op->c - 1;
    if (op->c > 0 && seen < state->messages.count && (state->messages.items[seen].state & MESSAGE_USED) &&
        state->messages.items[seen].id == op->record_id) {
        return seen;
    }
    return message_find(state, op->record_id);
}

static jfs_status message_allocate(jfs_state *state, uint32_t *message) {
    jfs_status status = JFS_OK;
    if (state->free_message != JFS_NONE) {
        *message = state->free_message;
        state->free_message = state->messages.items[*message].first_ref;
        return JFS_OK;
    }
    status = VECTOR_ROOM(&state->messages);
    if (status == JFS_OK) *message = state->messages.count++;
    return status;
}

static void message_locate(message_item *m, const jfs_operation *add) {
    m->file_slot = add->file_slot;
    m->body_offset = add->body_offset;
    m->body_bytes = add->body_bytes;
    m->source = add->user_type == TYPE_LARGE_MESSAGE ? JFS_SOURCE_CORE_LARGE : JFS_SOURCE_PERSISTER;
}

static jfs_status await_measure(jfs_state *state, uint32_t message) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(!(state->messages.items[message].state & MESSAGE_MEASURED));
    JFS_ASSERT(state->unmeasured < state->messages.count);
    jfs_status status = JFS_OK;
    state->unmeasured++;
    if (state->finished && !state->measure_all) {
        status = VECTOR_ROOM(&state->pending);
        if (status == JFS_OK) state->pending.items[state->pending.count++] = message;
    }
    return status;
}

/* An id that is known already is the same message in another place (compaction copies records). */
static jfs_status message_move(jfs_state *state, uint32_t message, const jfs_operation *add) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    JFS_ASSERT(state->messages.items[message].id == add->record_id);
    message_item *const m = &state->messages.items[message];
    const int same = m->body_bytes == add->body_bytes;
    message_disown(state, m);
    message_locate(m, add);
    message_own(state, m);
    if (same || !(m->state & MESSAGE_MEASURED)) return JFS_OK;
    m->state &= (uint8_t)~(MESSAGE_MEASURED | MESSAGE_LARGE_SOURCE);
    return await_measure(state, message);
}

jfs_status message_add(jfs_state *state, const jfs_operation *add) {
    uint32_t message = message_of_operation(state, add);
    message_item *m;
    jfs_status status;
    if (message != JFS_NONE) return message_move(state, message, add);
    status = message_allocate(state, &message);
    if (status != JFS_OK) return status;
    m = &state->messages.items[message];
    memset(m, 0, sizeof *m);
    m->id = add->record_id;
    m->first_ref = JFS_NONE;
    m->priority = PRIORITY_DEFAULT;
    m->state = MESSAGE_USED;
    message_locate(m, add);
    status = index_add(&state->message_index, state->messages.items, sizeof *m, message);
    if (status != JFS_OK) return status;
    state->live_messages++;
    return await_measure(state, message);
}

void message_remove(jfs_state *state, uint32_t message) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    JFS_ASSERT(state->live_messages > 0);
    message_item *const m = &state->messages.items[message];
    while (m->first_ref != JFS_NONE) ref_remove(state, m->first_ref);
    index_remove(&state->message_index, state->messages.items, sizeof *m, m->id);
    if (!(m->state & MESSAGE_MEASURED)) state->unmeasured--;
    if (m->state & MESSAGE_EXPIRES) state->live_expiries--;
    schedule_remove(state, message);
    m->state = 0;
    m->first_ref = state->free_message;
    state->free_message = message;
    state->live_messages--;
}

jfs_status message_set_measure(jfs_state *state, uint32_t message, const jfs_measure *measure) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    message_item *const m = &state->messages.items[message];
    const uint64_t tail_before = message_tail_bytes(m), file_before = message_file_bytes(m);
    const uint64_t sizes_max = ((uint64_t)1 << 40) - 1;
    const uint64_t tail = measure->tail_bytes < sizes_max ? measure->tail_bytes : sizes_max;
    const uint64_t file = measure->body_bytes < sizes_max ? measure->body_bytes : sizes_max;
    jfs_status status = expiry_add(state, message, measure->expiration_ms);
    uint32_t ref;
    if (status == JFS_OK) status = schedule_refs(state, message, measure->scheduled_ms);
    if (status != JFS_OK) return status;
    if (!(m->state & MESSAGE_MEASURED)) state->unmeasured--;
    m->timestamp_ms = measure->timestamp_ms;
    m->tail_low = (uint32_t)tail;
    m->tail_high = (uint8_t)(tail >> 32);
    m->file_low = (uint32_t)file;
    m->file_high = (uint8_t)(file >> 32);
    m->priority = measure->priority;
    m->suffix = measure->suffix;
    m->flags = measure->flags;
    m->state |= MESSAGE_MEASURED;
    for (ref = m->first_ref; ref != JFS_NONE; ref = state->refs.items[ref].next) {
        const ref_item *const r = &state->refs.items[ref];
        queue_item *const queue = queue_of_ref(state, r);
        queue->version++;
        /* Unsigned differences wrap and come out right. */
        if (r->state == REF_LIVE) queue->live_bytes += file - file_before;
        if (r->part != 0) part_find(queue, r->part)->live_bytes += tail - tail_before;
    }
    return JFS_OK;
}
