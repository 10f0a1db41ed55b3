/* References: a message being in a queue, and what few of them have beside that. */
#include "state_internal.h"

static int64_t wide_key(uint32_t message, uint32_t queue) { return (int64_t)((uint64_t)message << 32 | queue); }

uint32_t ref_find(const jfs_state *state, uint32_t message, uint32_t queue) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    const message_item *const m = &state->messages.items[message];
    uint32_t ref;
    if (m->state & MESSAGE_WIDE) {
        const uint32_t wide =
            index_find(&state->wide_index, state->wides.items, sizeof(wide_item), wide_key(message, queue));
        return wide == INDEX_NONE ? JFS_NONE : state->wides.items[wide].ref;
    }
    for (ref = m->first_ref; ref != JFS_NONE; ref = state->refs.items[ref].next) {
        if (state->refs.items[ref].queue == queue) return ref;
    }
    return JFS_NONE;
}

jfs_status wide_add(jfs_state *state, uint32_t ref) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(state->refs.items[ref].state != REF_FREE);
    const ref_item *const r = &state->refs.items[ref];
    uint32_t wide = state->free_wide;
    jfs_status status = JFS_OK;
    if (wide != JFS_NONE) {
        state->free_wide = (uint32_t)state->wides.items[wide].key;
    } else {
        status = VECTOR_ROOM(&state->wides);
        if (status != JFS_OK) return status;
        wide = state->wides.count++;
    }
    state->wides.items[wide].key = wide_key(r->message, r->queue);
    state->wides.items[wide].ref = ref;
    return index_add(&state->wide_index, state->wides.items, sizeof(wide_item), wide);
}

static void wide_remove(jfs_state *state, const ref_item *r) {
    const int64_t key = wide_key(r->message, r->queue);
    const uint32_t wide = index_find(&state->wide_index, state->wides.items, sizeof(wide_item), key);
    index_remove(&state->wide_index, state->wides.items, sizeof(wide_item), key);
    state->wides.items[wide].key = (int64_t)state->free_wide;
    state->free_wide = wide;
}

/* From this many references on, walking a message's list for each acknowledgement would take quadratic time. */
static jfs_status count_ref(jfs_state *state, uint32_t ref) {
    message_item *const m = &state->messages.items[state->refs.items[ref].message];
    jfs_status status = JFS_OK;
    if (m->state & MESSAGE_WIDE) return wide_add(state, ref);
    if (++m->refs < REFS_WIDE) return JFS_OK;
    m->state |= MESSAGE_WIDE;
    for (ref = m->first_ref; ref != JFS_NONE && status == JFS_OK; ref = state->refs.items[ref].next) {
        status = wide_add(state, ref);
    }
    return status;
}

/* A message that is in several queues is held once: it counts in the queue of its first reference. A header is held
 * twice, encoded and decoded.
 */
static void count_owned(jfs_state *state, const message_item *m, int add) {
    const int large = (m->source & JFS_SOURCE_CORE_LARGE) != 0;
    const uint64_t bytes = large ? 2 * (uint64_t)m->body_bytes : m->body_bytes;
    queue_item *queue;
    if (m->first_ref == JFS_NONE) return;
    queue = queue_of_ref(state, &state->refs.items[m->first_ref]);
    /* Unsigned differences wrap and come out right. */
    queue->owned += add ? 1U : -1U;
    queue->owned_large += large ? (add ? 1U : -1U) : 0U;
    queue->owned_bytes += add ? bytes : -bytes;
}

void message_own(jfs_state *state, const message_item *m) { count_owned(state, m, 1); }

void message_disown(jfs_state *state, const message_item *m) { count_owned(state, m, 0); }

jfs_status ref_add(jfs_state *state, uint32_t message, uint32_t slot) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    JFS_ASSERT((slot & ~COMING) < (slot & COMING ? state->comings.count : state->queues.count));
    message_item *const m = &state->messages.items[message];
    uint32_t ref = state->free_ref;
    queue_item *queue;
    ref_item *r;
    jfs_status status = JFS_OK;
    if (ref_find(state, message, slot) != JFS_NONE) return JFS_OK; /* a second one for the same pair does nothing */
    if (ref != JFS_NONE) {
        state->free_ref = state->refs.items[ref].message;
    } else {
        status = VECTOR_ROOM(&state->refs);
        if (status != JFS_OK) return status;
        ref = state->refs.count++;
    }
    r = &state->refs.items[ref];
    memset(r, 0, sizeof *r);
    r->message = message;
    r->queue = slot;
    r->state = REF_LIVE;
    r->prev = JFS_NONE;
    r->next = m->first_ref;
    if (r->next != JFS_NONE) state->refs.items[r->next].prev = ref;
    message_disown(state, m);
    m->first_ref = ref;
    message_own(state, m);
    queue = queue_of_ref(state, r);
    queue->live_count++;
    queue->live_bytes += message_file_bytes(m);
    state->live_refs += !(slot & COMING);
    status = queue_append(state, queue, ref);
    if (status == JFS_OK && (m->state & MESSAGE_SCHEDULED)) status = ref_decorate(state, ref, TYPE_SCHEDULED_TIME, 0);
    return status == JFS_OK ? count_ref(state, ref) : status;
}

static void decor_free(jfs_state *state, ref_item *r) {
    JFS_ASSERT(r->decor == 0 || r->decor < state->decors.count);
    if (r->decor == 0) return;
    state->decors.items[r->decor].delivery_count = (int32_t)state->free_decor;
    state->free_decor = r->decor;
    r->decor = 0;
}

void ref_remove(jfs_state *state, uint32_t ref) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(state->refs.items[ref].state != REF_FREE);
    JFS_ASSERT(state->messages.items[state->refs.items[ref].message].state & MESSAGE_USED);
    ref_item *const r = &state->refs.items[ref];
    message_item *const m = &state->messages.items[r->message];
    queue_item *const queue = queue_of_ref(state, r);
    if (r->part != 0) part_leave(state, queue, r);
    queue->left++;
    if (r->state == REF_LIVE) {
        queue->live_count--;
        queue->live_bytes -= message_file_bytes(m);
    } else {
        queue->delivering_count--;
    }
    if (m->state & MESSAGE_WIDE) {
        wide_remove(state, r);
    } else {
        m->refs--;
    }
    if (r->prev != JFS_NONE) {
        state->refs.items[r->prev].next = r->next;
    } else {
        message_disown(state, m);
        m->first_ref = r->next;
        message_own(state, m);
    }
    if (r->next != JFS_NONE) state->refs.items[r->next].prev = r->prev;
    decor_free(state, r);
    queue_drop(state, queue, r);
    r->state = REF_FREE;
    r->message = state->free_ref;
    state->free_ref = ref;
    state->live_refs -= !(r->queue & COMING);
}

jfs_status decor_allocate(jfs_state *state, ref_item *r) {
    JFS_ASSERT(r->decor == 0);
    uint32_t decor = state->free_decor;
    jfs_status status = JFS_OK;
    if (decor != 0) {
        state->free_decor = (uint32_t)state->decors.items[decor].delivery_count;
    } else {
        if (state->decors.count == 0) { /* item 0 means none */
            status = VECTOR_ROOM(&state->decors);
            if (status != JFS_OK) return status;
            memset(&state->decors.items[state->decors.count++], 0, sizeof(decor_item));
        }
        status = state->decors.count > DECOR_MAX ? JFS_NO_MEMORY : VECTOR_ROOM(&state->decors);
        if (status != JFS_OK) return status;
        decor = state->decors.count++;
    }
    memset(&state->decors.items[decor], 0, sizeof(decor_item));
    r->decor = decor & DECOR_MAX;
    return JFS_OK;
}

/* A delivery count or a scheduled time. A time of 0 is no record: the reference is due when its message says. Values
 * below 0, which no broker writes, count as none.
 */
jfs_status ref_decorate(jfs_state *state, uint32_t ref, int user_type, int64_t value) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(state->refs.items[ref].state != REF_FREE);
    ref_item *const r = &state->refs.items[ref];
    if (value < 0) value = 0;
    if (value == 0 && user_type == TYPE_SCHEDULED_TIME) value = schedule_of(state, r->message);
    if (r->decor == 0) {
        const jfs_status status = value == 0 ? JFS_OK : decor_allocate(state, r);
        if (status != JFS_OK || value == 0) return status;
    }
    if (user_type == TYPE_DELIVERY_COUNT) {
        state->decors.items[r->decor].delivery_count = (int32_t)value;
    } else {
        state->decors.items[r->decor].scheduled_ms = value;
    }
    queue_of_ref(state, r)->version++;
    return JFS_OK;
}

jfs_status schedule_refs(jfs_state *state, uint32_t message, int64_t due_ms) {
    JFS_ASSERT(message < state->messages.count);
    const int64_t before = schedule_of(state, message);
    jfs_status status = due_ms == before ? JFS_OK : schedule_add(state, message, due_ms);
    uint32_t ref = state->messages.items[message].first_ref;
    for (; ref != JFS_NONE && due_ms != before && status == JFS_OK; ref = state->refs.items[ref].next) {
        const ref_item *const r = &state->refs.items[ref];
        const int64_t known = r->decor == 0 ? 0 : state->decors.items[r->decor].scheduled_ms;
        if (known == before) status = ref_decorate(state, ref, TYPE_SCHEDULED_TIME, due_ms);
    }
    return status;
}

/* A prepared transaction acknowledges the reference: out of sight, and out of its part, which may only shrink. */
void ref_hide(jfs_state *state, uint32_t ref) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(state->refs.items[ref].state != REF_FREE);
    ref_item *const r = &state->refs.items[ref];
    queue_item *const queue = queue_of_ref(state, r);
    if (r->state != REF_LIVE) return;
    if (r->part != 0) part_leave(state, queue, r);
    r->state = REF_DELIVERING;
    queue->live_count--;
    queue->live_bytes -= message_file_bytes(&state->messages.items[r->message]);
    queue->delivering_count++;
    queue->version++;
}

/* The transaction was rolled back: the reference keeps its place in the order, and shows in the tail. */
void ref_show(jfs_state *state, uint32_t ref) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(state->refs.items[ref].state != REF_FREE);
    ref_item *const r = &state->refs.items[ref];
    queue_item *const queue = queue_of_ref(state, r);
    if (r->state != REF_DELIVERING) return;
    r->state = REF_LIVE;
    queue->live_count++;
    queue->live_bytes += message_file_bytes(&state->messages.items[r->message]);
    queue->delivering_count--;
    queue->version++;
    if (r->position < queue->tail_from) queue->tail_from = r->position;
}
