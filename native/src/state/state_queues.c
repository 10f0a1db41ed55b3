/* Queues: their slots, and their references in order of arrival. */
#include "state_internal.h"

enum { HOLES_FREE = 64 };

uint32_t queue_find(jfs_state *state, int64_t queue_id) {
    uint32_t slot = state->last_queue;
    if (slot < state->queues.count && state->queues.items[slot].queue_id == queue_id) return slot;
    slot = index_find(&state->queue_index, state->queues.items, sizeof(queue_item), queue_id);
    if (slot != INDEX_NONE) state->last_queue = slot;
    return slot;
}

jfs_status queue_slot(jfs_state *state, int64_t queue_id, uint32_t *slot) {
    queue_item *queue;
    jfs_status status;
    *slot = queue_find(state, queue_id);
    if (*slot != JFS_NONE) return JFS_OK;
    status = VECTOR_ROOM(&state->queues);
    if (status != JFS_OK) return status;
    *slot = state->queues.count++;
    queue = &state->queues.items[*slot];
    memset(queue, 0, sizeof *queue);
    queue->queue_id = queue_id;
    queue->next_part = 1;
    return index_add(&state->queue_index, state->queues.items, sizeof *queue, *slot);
}

jfs_status queue_append(jfs_state *state, queue_item *queue, uint32_t ref) {
    JFS_ASSERT(ref < state->refs.count);
    JFS_ASSERT(queue->held <= queue->arrival.count);
    jfs_status status = VECTOR_ROOM(&queue->arrival);
    if (status != JFS_OK) return status;
    state->refs.items[ref].position = queue->arrival.count;
    queue->arrival.items[queue->arrival.count++] = ref;
    queue->held++;
    queue->version++;
    return JFS_OK;
}

void queue_drop(jfs_state *state, queue_item *queue, const ref_item *ref) {
    JFS_ASSERT(ref->position < queue->arrival.count);
    JFS_ASSERT(queue->held > 0);
    JFS_ASSERT(queue->arrival.items[ref->position] == (uint32_t)(ref - state->refs.items));
    queue->arrival.items[ref->position] = JFS_NONE;
    queue->held--;
    queue->version++;
    while (queue->arrival.count > 0 && queue->arrival.items[queue->arrival.count - 1] == JFS_NONE) {
        queue->arrival.count--;
    }
    if (queue->tail_from > queue->arrival.count) queue->tail_from = queue->arrival.count;
    if (queue->arrival.count - queue->held > queue->held + HOLES_FREE) queue_compact(state, queue);
}

/* Closes the holes. Parts keep the range of positions in which their references lie. */
void queue_compact(jfs_state *state, queue_item *queue) {
    JFS_ASSERT(queue->held <= queue->arrival.count);
    JFS_ASSERT(queue->tail_from <= queue->arrival.count);
    uint32_t to = 0, tail_from = JFS_NONE;
    part_item *part = NULL;
    for (uint32_t i = 0; i < queue->parts.count; i++) {
        queue->parts.items[i].first = JFS_NONE;
        queue->parts.items[i].last = 0;
    }
    for (uint32_t from = 0; from < queue->arrival.count; from++) {
        const uint32_t ref = queue->arrival.items[from];
        ref_item *r;
        if (ref == JFS_NONE) continue;
        r = &state->refs.items[ref];
        queue->arrival.items[to] = ref;
        r->position = to;
        if (r->part != 0) {
            if (part == NULL || part->number != r->part) part = part_find(queue, r->part);
            if (part->first == JFS_NONE) part->first = to;
            part->last = to;
        } else if (tail_from == JFS_NONE && from >= queue->tail_from) {
            tail_from = to;
        }
        to++;
    }
    queue->arrival.count = to;
    queue->tail_from = tail_from == JFS_NONE ? to : tail_from;
    if (queue->arrival.capacity / 4 > to) VECTOR_SHRINK(&queue->arrival);
}

jfs_status jfs_state_register_queue(jfs_state *state, int64_t queue_id, uint32_t *slot) {
    return queue_slot(state, queue_id, slot);
}

jfs_status jfs_state_queue(const jfs_state *state, uint32_t slot, jfs_queue_info *out) {
    const queue_item *queue;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    *out = (jfs_queue_info){.queue_id = queue->queue_id,
                            .version = queue->version,
                            .live_bytes = queue->live_bytes,
                            .owned_bytes = queue->owned_bytes,
                            .left = queue->left,
                            .owned = queue->owned,
                            .owned_large = queue->owned_large,
                            .live_count = queue->live_count,
                            .delivering_count = queue->delivering_count,
                            .next_part = queue->next_part};
    return JFS_OK;
}

jfs_status jfs_state_queues(const jfs_state *state, jfs_queue_info *out, uint32_t capacity, uint32_t *count) {
    for (uint32_t i = 0; i < state->queues.count && i < capacity; i++) jfs_state_queue(state, i, &out[i]);
    return listed(state->queues.count, capacity, count);
}

jfs_status jfs_state_bind(jfs_state *state, const int64_t *queue_ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot;
        const jfs_status status = queue_slot(state, queue_ids[i], &slot);
        if (status != JFS_OK) return status;
        state->queues.items[slot].bound = 1;
    }
    return JFS_OK;
}

void jfs_state_unbind(jfs_state *state, const int64_t *queue_ids, uint32_t count) {
    if (queue_ids == NULL) count = state->queues.count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = queue_ids == NULL ? i : queue_find(state, queue_ids[i]);
        if (slot != JFS_NONE) state->queues.items[slot].bound = 0;
    }
}

jfs_status jfs_state_unbound(const jfs_state *state, jfs_queue_info *out, uint32_t capacity, uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        const queue_item *const queue = &state->queues.items[i];
        if (queue->bound || (queue->live_count == 0 && queue->delivering_count == 0)) continue;
        if (found < capacity) jfs_state_queue(state, i, &out[found]);
        found++;
    }
    return listed(found, capacity, count);
}

jfs_status jfs_state_queues_changed(const jfs_state *state, uint64_t *seen, int64_t *out, uint32_t room,
                                    uint32_t *count) {
    *count = state->queues.count;
    if (*count > room) return JFS_FULL;
    *count = 0;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        if (seen[i] == state->queues.items[i].version) continue;
        seen[i] = state->queues.items[i].version;
        out[(*count)++] = state->queues.items[i].queue_id;
    }
    return JFS_OK;
}

void jfs_state_sum(const jfs_state *state, const int64_t *queue_ids, const int32_t *weights, uint32_t count,
                   jfs_queue_sums *out) {
    memset(out, 0, sizeof *out);
    if (queue_ids == NULL) count = state->queues.count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = queue_ids == NULL ? i
                                                : index_find(&state->queue_index, state->queues.items,
                                                             sizeof(queue_item), queue_ids[i]);
        if (slot == INDEX_NONE) continue;
        const queue_item *const queue = &state->queues.items[slot];
        out->live_bytes += queue->live_bytes;
        out->owned_bytes += queue->owned_bytes;
        out->owned += queue->owned;
        out->owned_large += queue->owned_large;
        out->live_count += queue->live_count;
        out->delivering_count += queue->delivering_count;
        if (weights != NULL) out->weight += (int64_t)weights[i] * (int64_t)(queue->owned - queue->owned_large);
    }
}

jfs_status jfs_state_oldest(const jfs_state *state, uint32_t slot, int64_t *timestamp_ms) {
    const queue_item *queue;
    *timestamp_ms = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (uint32_t i = 0; i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        int64_t timestamp;
        if (ref == JFS_NONE || state->refs.items[ref].state != REF_LIVE) continue;
        timestamp = state->messages.items[state->refs.items[ref].message].timestamp_ms;
        if (timestamp > 0 && (*timestamp_ms == 0 || timestamp < *timestamp_ms)) *timestamp_ms = timestamp;
    }
    return JFS_OK;
}

static int includes(int include, const ref_item *ref) {
    if (include == JFS_INCLUDE_ALL) return 1;
    return ref->state == (include == JFS_INCLUDE_DELIVERING ? REF_DELIVERING : REF_LIVE);
}

static uint32_t rank(const jfs_state *state, const ref_item *ref) {
    const uint8_t priority = state->messages.items[ref->message].priority;
    return priority > 9 ? 0 : 9U - priority; /* 9 is delivered first */
}

jfs_status jfs_state_refs(const jfs_state *state, uint32_t slot, int order, int include, uint32_t *out,
                          uint32_t capacity, uint32_t *count) {
    const queue_item *queue;
    uint32_t starts[11] = {0};
    uint32_t found = 0;
    *count = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (uint32_t i = 0; i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        if (ref == JFS_NONE || !includes(include, &state->refs.items[ref])) continue;
        if (order == JFS_ORDER_DELIVERY) {
            starts[rank(state, &state->refs.items[ref]) + 1]++;
        } else if (found < capacity) {
            out[found] = ref;
        }
        found++;
    }
    if (order != JFS_ORDER_DELIVERY || found > capacity) return listed(found, capacity, count);
    for (uint32_t i = 1; i < 11; i++) starts[i] += starts[i - 1];
    for (uint32_t i = 0; i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        if (ref == JFS_NONE || !includes(include, &state->refs.items[ref])) continue;
        out[starts[rank(state, &state->refs.items[ref])]++] = ref;
    }
    return listed(found, capacity, count);
}

typedef struct {
    int64_t scheduled_ms;
    uint32_t position;
    uint32_t ref;
} due_item;

static int by_due(const void *left, const void *right) {
    const due_item *const a = left, *const b = right;
    if (a->scheduled_ms != b->scheduled_ms) return a->scheduled_ms < b->scheduled_ms ? -1 : 1;
    return a->position < b->position ? -1 : 1;
}

jfs_status jfs_state_scheduled(const jfs_state *state, uint32_t slot, int64_t now_ms, uint32_t *out,
                               uint32_t capacity, uint32_t *count) {
    const queue_item *queue;
    VECTOR(due_item) due = {NULL, 0, 0};
    jfs_status status = JFS_OK;
    *count = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (uint32_t i = 0; i < queue->arrival.count && status == JFS_OK; i++) {
        const uint32_t ref = queue->arrival.items[i];
        const ref_item *r;
        if (ref == JFS_NONE) continue;
        r = &state->refs.items[ref];
        if (r->state != REF_LIVE || r->decor == 0 || state->decors.items[r->decor].scheduled_ms <= now_ms) continue;
        status = VECTOR_ROOM(&due);
        if (status == JFS_OK) due.items[due.count++] = (due_item){state->decors.items[r->decor].scheduled_ms, i, ref};
    }
    if (status == JFS_OK) {
        if (due.count > 1) qsort(due.items, due.count, sizeof *due.items, by_due);
        for (uint32_t i = 0; i < due.count && i < capacity; i++) out[i] = due.items[i].ref;
        status = listed(due.count, capacity, count);
    }
    free(due.items);
    return status;
}

jfs_status jfs_state_failed(const jfs_state *state, uint32_t slot, int32_t attempts, uint32_t *out, uint32_t capacity,
                            uint32_t *count) {
    const queue_item *queue;
    uint32_t found = 0;
    *count = 0;
    if (slot >= state->queues.count || attempts <= 0) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (uint32_t i = 0; i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        const ref_item *r;
        if (ref == JFS_NONE) continue;
        r = &state->refs.items[ref];
        if (r->state != REF_LIVE || r->decor == 0 || state->decors.items[r->decor].delivery_count < attempts) continue;
        if (found < capacity) out[found] = ref;
        found++;
    }
    return listed(found, capacity, count);
}
