/* What long open transactions give to queues. It is made while the transaction comes in, as if the transaction had queues
 * of its own that nobody sees; to commit is to append those to the real ones.
 */
#include "state_internal.h"

/* Operations from which on it pays; and queues up to which one is soon found. What goes to others waits for the commit. */
enum { LONG = 4096, COMINGS_OF_ONE_MAX = 8 };

static coming_item *coming_of(jfs_state *state, uint32_t coming) {
    JFS_ASSERT(coming < state->comings.count);
    return &state->comings.items[coming];
}

/* JFS_NONE, with JFS_OK: the transaction gives to as many as it may already. */
static jfs_status coming_for(jfs_state *state, tx_item *tx, int64_t queue_id, uint32_t *found) {
    uint32_t *link = &tx->first_coming, last = JFS_NONE, count = 0;
    jfs_status status = JFS_OK;
    for (*found = tx->first_coming; *found != JFS_NONE; *found = coming_of(state, *found)->next, count++) {
        if (coming_of(state, *found)->queue.queue_id == queue_id) return JFS_OK;
        last = *found;
    }
    if (count == COMINGS_OF_ONE_MAX) return JFS_OK;
    *found = state->free_coming;
    if (*found != JFS_NONE) {
        state->free_coming = coming_of(state, *found)->next;
    } else {
        status = VECTOR_ROOM(&state->comings);
        if (status != JFS_OK) return status;
        *found = state->comings.count++;
    }
    memset(coming_of(state, *found), 0, sizeof(coming_item));
    coming_of(state, *found)->queue.queue_id = queue_id;
    coming_of(state, *found)->next = JFS_NONE;
    if (last != JFS_NONE) link = &coming_of(state, last)->next;
    *link = *found;
    return JFS_OK;
}

/* Nobody sees a message whose references are all of this transaction. */
static int is_own(jfs_state *state, const tx_item *tx, const message_item *m) {
    const uint32_t queue = m->first_ref == JFS_NONE ? JFS_NONE : state->refs.items[m->first_ref].queue;
    if (m->first_ref == JFS_NONE) return 1;
    if (m->refs >= REFS_WIDE - 1 || !(queue & COMING)) return 0;
    for (uint32_t coming = tx->first_coming; coming != JFS_NONE; coming = coming_of(state, coming)->next) {
        if (coming == (queue & ~COMING)) return 1;
    }
    return 0;
}

static jfs_status take(jfs_state *state, tx_item *tx, const jfs_operation *op) {
    const uint32_t message = op->c > 0 ? message_of_operation(state, op) : JFS_NONE;
    const message_item *const m = message == JFS_NONE ? NULL : &state->messages.items[message];
    uint32_t coming;
    jfs_status status;
    if (m == NULL || !is_own(state, tx, m)) return JFS_OK;
    if (op->kind == JFS_ADD) {
        tx->foreseen += m->file_slot == op->file_slot && m->body_offset == op->body_offset;
        return JFS_OK;
    }
    if (op->user_type != TYPE_ADD_REFERENCE) return JFS_OK;
    status = coming_for(state, tx, op->a, &coming);
    if (status != JFS_OK || coming == JFS_NONE) return status;
    tx->foreseen++;
    return ref_add(state, message, coming | COMING);
}

jfs_status coming_take(jfs_state *state, uint32_t found) {
    JFS_ASSERT(found < state->txs.count);
    JFS_ASSERT(state->txs.items[found].used);
    tx_item *const tx = &state->txs.items[found];
    jfs_status status = JFS_OK;
    if (tx->comes) return take(state, tx, &state->ops.items[tx->last_op].op);
    if (tx->operations != LONG) return JFS_OK;
    tx->comes = 1;
    for (uint32_t op = tx->first_op; op != JFS_NONE && status == JFS_OK; op = state->ops.items[op].next) {
        status = take(state, tx, &state->ops.items[op].op);
    }
    return status;
}

static jfs_status append(jfs_state *state, queue_item *from, uint32_t slot) {
    JFS_ASSERT(slot < state->queues.count);
    JFS_ASSERT(from->parts.count == 0);
    JFS_ASSERT(from->delivering_count == 0);
    queue_item *const to = &state->queues.items[slot];
    const uint64_t wanted = (uint64_t)to->arrival.count + from->held;
    jfs_status status = JFS_OK;
    if (wanted >= JFS_NONE) return JFS_NO_MEMORY;
    if (wanted > to->arrival.capacity) {
        status = vector_grow(&to->arrival.items, &to->arrival.capacity, sizeof *to->arrival.items, (uint32_t)wanted);
    }
    if (status != JFS_OK) return status;
    for (uint32_t i = 0; i < from->arrival.count; i++) {
        const uint32_t ref = from->arrival.items[i];
        if (ref == JFS_NONE) continue;
        state->refs.items[ref].queue = slot;
        state->refs.items[ref].position = to->arrival.count;
        to->arrival.items[to->arrival.count++] = ref;
    }
    to->held += from->held;
    to->live_count += from->live_count;
    to->live_bytes += from->live_bytes;
    to->owned += from->owned;
    to->owned_large += from->owned_large;
    to->owned_bytes += from->owned_bytes;
    to->version += from->version;
    state->live_refs += from->held;
    return JFS_OK;
}

static void free_coming(jfs_state *state, uint32_t coming) {
    queue_item *const queue = &coming_of(state, coming)->queue;
    /* Only of messages that others refer to as well. */
    while (queue->arrival.count > 0) ref_remove(state, queue->arrival.items[queue->arrival.count - 1]);
    free(queue->arrival.items);
    memset(queue, 0, sizeof *queue);
    coming_of(state, coming)->next = state->free_coming;
    state->free_coming = coming;
}

jfs_status coming_arrive(jfs_state *state, tx_item *tx) {
    jfs_status status = JFS_OK;
    while (tx->first_coming != JFS_NONE && status == JFS_OK) {
        const uint32_t coming = tx->first_coming;
        queue_item *const from = &coming_of(state, coming)->queue;
        uint32_t slot;
        status = queue_slot(state, from->queue_id, &slot);
        if (status == JFS_OK) status = append(state, from, slot);
        if (status != JFS_OK) return status;
        from->arrival.count = 0;
        tx->first_coming = coming_of(state, coming)->next;
        free_coming(state, coming);
    }
    return status;
}

void coming_free(jfs_state *state, uint32_t *first) {
    while (*first != JFS_NONE) {
        const uint32_t coming = *first;
        *first = coming_of(state, coming)->next;
        free_coming(state, coming);
    }
}
