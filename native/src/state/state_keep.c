/* Parts in a few bytes, to be found again by whoever reads the journal next: the ids of their messages, in order of
 * arrival, each as its distance from the one before (zigzag, seven bits to a byte, lowest first).
 */
#include "jfs_state_batch.h"
#include "state_internal.h"

enum { ID_BYTES_MAX = 10 };

static uint32_t put_distance(uint8_t *out, int64_t before, int64_t id) {
    const uint64_t apart = (uint64_t)id - (uint64_t)before;
    uint64_t left = apart >> 63 ? ~apart << 1 | 1 : apart << 1;
    uint32_t count = 0;
    while (left >= 0x80) {
        out[count++] = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    out[count++] = (uint8_t)left;
    return count;
}

/* Bytes taken; 0: there are too few, or too many of one number. */
static uint32_t take_distance(const uint8_t *bytes, uint64_t left, int64_t *id) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < ID_BYTES_MAX && i < left; i++) {
        value |= (uint64_t)(bytes[i] & 0x7f) << (7 * i);
        if (bytes[i] & 0x80) continue;
        value = value & 1 ? ~(value >> 1) : value >> 1;
        *id = (int64_t)((uint64_t)*id + value);
        return i + 1;
    }
    return 0;
}

jfs_status jfs_state_part_ids(const jfs_state *state, uint32_t slot, uint32_t number, uint8_t *out, uint64_t capacity,
                              uint64_t *size_bytes) {
    const queue_item *queue;
    const part_item *part;
    int64_t before = 0;
    *size_bytes = 0;
    if (slot >= state->queues.count) return JFS_RANGE;
    queue = &state->queues.items[slot];
    part = part_find((queue_item *)queue, number);
    if (part == NULL || part->live_count == 0) return JFS_OK;
    if (capacity < (uint64_t)part->live_count * ID_BYTES_MAX) return JFS_RANGE;
    for (uint32_t at = part->first; at <= part->last && at < queue->arrival.count; at++) {
        const uint32_t ref = queue->arrival.items[at];
        int64_t id;
        if (ref == JFS_NONE || state->refs.items[ref].part != number) continue;
        id = state->messages.items[state->refs.items[ref].message].id;
        *size_bytes += put_distance(out + *size_bytes, before, id);
        before = id;
    }
    return JFS_OK;
}

/* The live reference of a message in the tail of a queue, or in a part made before `number`. */
static ref_item *keepable(jfs_state *state, uint32_t slot, uint32_t number, int64_t id) {
    const uint32_t message = message_find(state, id);
    const uint32_t ref = message == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
    ref_item *r;
    if (ref == JFS_NONE || !(state->messages.items[message].state & MESSAGE_MEASURED)) return NULL;
    r = &state->refs.items[ref];
    return r->state == REF_LIVE && r->part < number ? r : NULL;
}

static void join(jfs_state *state, queue_item *queue, ref_item *r, uint32_t number, int64_t mtime_ms) {
    part_item *part;
    if (r->part != 0) part_leave(state, queue, r); /* which may take empty parts away, so ours is not empty */
    if (r->decor != 0) {
        decor_item *const decor = &state->decors.items[r->decor];
        decor->sealed_delivery_count = decor->delivery_count;
        decor->sealed_scheduled_ms = decor->scheduled_ms > mtime_ms ? decor->scheduled_ms : 0;
    }
    r->part = number;
    part = &queue->parts.items[queue->parts.count - 1];
    part->live_bytes += ref_line_bytes(state, r, 1, 0);
    part->live_count++;
    if (r->position < part->first) part->first = r->position;
    if (r->position > part->last) part->last = r->position;
}

jfs_status jfs_state_keep_part(jfs_state *state, uint32_t slot, const jfs_part_info *info, const uint8_t *ids,
                               uint64_t size_bytes) {
    queue_item *queue;
    part_item *part;
    jfs_status status;
    uint64_t at = 0;
    int64_t id = 0;
    if (slot >= state->queues.count || info->number == UINT32_MAX) return JFS_RANGE;
    queue = &state->queues.items[slot];
    if (info->number < queue->next_part) return JFS_OK;
    status = VECTOR_ROOM(&queue->parts);
    if (status != JFS_OK) return status;
    queue->next_part = info->number + 1;
    part = &queue->parts.items[queue->parts.count++];
    memset(part, 0, sizeof *part);
    part->number = info->number;
    part->mtime_ms = info->mtime_ms;
    part->first = JFS_NONE;
    part->live_count = 1;
    while (at < size_bytes) {
        const uint32_t taken = take_distance(ids + at, size_bytes - at, &id);
        ref_item *const r = taken == 0 ? NULL : keepable(state, slot, info->number, id);
        if (taken == 0) break;
        at += taken;
        if (r != NULL) join(state, queue, r, info->number, info->mtime_ms);
    }
    queue->parts.items[queue->parts.count - 1].live_count--;
    parts_compact(queue);
    queue->version++;
    return at < size_bytes ? JFS_MALFORMED : JFS_OK;
}
