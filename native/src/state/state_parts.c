/* Parts: what was in the tail, sealed under a number that is never used again. A part only shrinks. */
#include "state_internal.h"

enum { EMPTY_PARTS_FREE = 16 };

part_item *part_find(queue_item *queue, uint32_t number) {
    uint32_t low = 0, high = queue->parts.count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (queue->parts.items[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == queue->parts.count || queue->parts.items[low].number != number) return NULL;
    return &queue->parts.items[low];
}

void parts_compact(queue_item *queue) {
    JFS_ASSERT(queue->empty_parts <= queue->parts.count);
    uint32_t to = 0;
    for (uint32_t from = 0; from < queue->parts.count; from++) {
        if (queue->parts.items[from].live_count > 0) queue->parts.items[to++] = queue->parts.items[from];
    }
    queue->parts.count = to;
    queue->empty_parts = 0;
}

/* A part that a reference names exists: this is the only place where one becomes empty. */
void part_leave(jfs_state *state, queue_item *queue, ref_item *ref) {
    JFS_ASSERT(ref->part != 0);
    JFS_ASSERT(part_find(queue, ref->part) != NULL);
    JFS_ASSERT(part_find(queue, ref->part)->live_count > 0);
    JFS_ASSERT(part_find(queue, ref->part)->live_bytes >= ref_line_bytes(state, ref, 1, 0));
    part_item *const part = part_find(queue, ref->part);
    part->live_bytes -= ref_line_bytes(state, ref, 1, 0);
    part->live_count--;
    ref->part = 0;
    if (part->live_count == 0) queue->empty_parts++;
    if (queue->empty_parts > queue->parts.count / 2 + EMPTY_PARTS_FREE) parts_compact(queue);
}

static void seal_decor(jfs_state *state, const ref_item *ref, int64_t now_ms) {
    decor_item *decor;
    if (ref->decor == 0) return;
    decor = &state->decors.items[ref->decor];
    decor->sealed_delivery_count = decor->delivery_count;
    decor->sealed_scheduled_ms = decor->scheduled_ms > now_ms ? decor->scheduled_ms : 0;
}

static jfs_status part_open(queue_item *queue, int64_t now_ms, uint32_t position, const jfs_seal_limits *limits,
                            part_item **part) {
    JFS_ASSERT(position < queue->arrival.count);
    JFS_ASSERT(queue->next_part > 0);
    jfs_status status = VECTOR_ROOM(&queue->parts);
    if (status != JFS_OK) return status;
    if (queue->next_part < limits->number_from) queue->next_part = limits->number_from;
    if (queue->next_part >= limits->number_end) return JFS_FULL;
    *part = &queue->parts.items[queue->parts.count++];
    memset(*part, 0, sizeof **part);
    (*part)->number = queue->next_part++;
    (*part)->mtime_ms = now_ms;
    (*part)->first = position;
    return JFS_OK;
}

jfs_status jfs_state_seal(jfs_state *state, uint32_t slot, int64_t now_ms, const jfs_seal_limits *limits,
                          uint32_t *made) {
    jfs_status status = JFS_OK;
    queue_item *queue;
    part_item *part = NULL;
    uint32_t at;
    *made = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (at = queue->tail_from; at < queue->arrival.count; at++) {
        const uint32_t ref = queue->arrival.items[at];
        ref_item *r;
        uint64_t line_bytes;
        if (ref == JFS_NONE) continue;
        r = &state->refs.items[ref];
        if (r->state != REF_LIVE || r->part != 0) continue;
        if (!(state->messages.items[r->message].state & MESSAGE_MEASURED)) break;
        seal_decor(state, r, now_ms);
        line_bytes = ref_line_bytes(state, r, 1, 0);
        if (part == NULL || part->live_count >= limits->messages_max ||
            part->live_bytes + line_bytes > limits->bytes_max) {
            status = part_open(queue, now_ms, at, limits, &part);
            if (status != JFS_OK) break;
            (*made)++;
        }
        r->part = part->number;
        part->live_count++;
        part->live_bytes += line_bytes;
        part->last = at;
    }
    queue->tail_from = at;
    if (*made > 0) queue->version++;
    return status;
}

jfs_status jfs_state_parts(const jfs_state *state, uint32_t slot, jfs_part_info *out, uint32_t capacity,
                           uint32_t *count) {
    const queue_item *queue;
    uint32_t found = 0;
    *count = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    for (uint32_t i = 0; i < queue->parts.count; i++) {
        const part_item *const part = &queue->parts.items[i];
        if (part->live_count == 0) continue;
        if (found < capacity) {
            out[found].mtime_ms = part->mtime_ms;
            out[found].live_bytes = part->live_bytes;
            out[found].number = part->number;
            out[found].live_count = part->live_count;
        }
        found++;
    }
    return listed(found, capacity, count);
}

static jfs_status refs_of_part(const jfs_state *state, const queue_item *queue, uint32_t number, uint32_t from,
                               uint32_t to, uint32_t *out, uint32_t capacity, uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = from; i < to && i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        if (ref == JFS_NONE || state->refs.items[ref].part != number || state->refs.items[ref].state != REF_LIVE) {
            continue;
        }
        if (found < capacity) out[found] = ref;
        found++;
    }
    return listed(found, capacity, count);
}

jfs_status jfs_state_part_refs(const jfs_state *state, uint32_t slot, uint32_t number, uint32_t *out,
                               uint32_t capacity, uint32_t *count) {
    const part_item *part;
    *count = 0;
    if (slot >= state->queues.count || number == 0) return JFS_RANGE;
    part = part_find(&state->queues.items[slot], number);
    if (part == NULL || part->live_count == 0) return JFS_OK;
    return refs_of_part(state, &state->queues.items[slot], number, part->first, part->last + 1, out, capacity, count);
}

jfs_status jfs_state_tail_refs(const jfs_state *state, uint32_t slot, uint32_t *out, uint32_t capacity,
                               uint32_t *count) {
    *count = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    return refs_of_part(state, &state->queues.items[slot], 0, state->queues.items[slot].tail_from, JFS_NONE, out,
                        capacity, count);
}
