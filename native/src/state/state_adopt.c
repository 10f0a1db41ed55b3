/* Carries parts over: from the state a journal had before it was rewritten, to the one read from what is there now.
 *
 * A part's name is never used for other content, so a journal read anew may not number its parts anew. What is live in
 * both states keeps its place, its part and what its line showed; what is new comes behind.
 */
#include "jfs_state_batch.h"
#include "state_internal.h"

typedef VECTOR(uint32_t) ref_list;

static jfs_status list_add(ref_list *list, uint32_t ref) {
    const jfs_status status = VECTOR_ROOM(list);
    if (status == JFS_OK) list->items[list->count++] = ref;
    return status;
}

static jfs_status adopt_decor(jfs_state *state, ref_item *r, const jfs_state *old, const ref_item *was) {
    const decor_item *before;
    if (was->decor == 0) return JFS_OK;
    before = &old->decors.items[was->decor];
    if (before->sealed_delivery_count == 0 && before->sealed_scheduled_ms == 0) return JFS_OK;
    if (r->decor == 0) {
        const jfs_status status = decor_allocate(state, r);
        if (status != JFS_OK) return status;
    }
    state->decors.items[r->decor].sealed_delivery_count = before->sealed_delivery_count;
    state->decors.items[r->decor].sealed_scheduled_ms = before->sealed_scheduled_ms;
    return JFS_OK;
}

/* The reference that is `was` in the old state; JFS_NONE if it is gone. */
static uint32_t same_ref(const jfs_state *state, uint32_t slot, const jfs_state *old, const ref_item *was) {
    const uint32_t message = message_find(state, old->messages.items[was->message].id);
    return message == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
}

/* Lists the queue's references in the order they shall have. `seen`: one byte per reference. */
static jfs_status ordered_refs(jfs_state *state, uint32_t slot, const jfs_state *old, const queue_item *before,
                               uint8_t *seen, ref_list *ordered) {
    const queue_item *const queue = &state->queues.items[slot];
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < before->arrival.count && status == JFS_OK; i++) {
        const uint32_t old_ref = before->arrival.items[i];
        const ref_item *const was = old_ref == JFS_NONE ? NULL : &old->refs.items[old_ref];
        const uint32_t ref = was == NULL ? JFS_NONE : same_ref(state, slot, old, was);
        ref_item *r;
        if (ref == JFS_NONE || seen[ref]) continue;
        r = &state->refs.items[ref];
        seen[ref] = 1;
        status = list_add(ordered, ref);
        if (status == JFS_OK && r->state == REF_LIVE && was->part != 0 &&
            (state->messages.items[r->message].state & MESSAGE_MEASURED)) {
            r->part = was->part;
            status = adopt_decor(state, r, old, was);
        }
    }
    for (uint32_t i = 0; i < queue->arrival.count && status == JFS_OK; i++) {
        const uint32_t ref = queue->arrival.items[i];
        if (ref != JFS_NONE && !seen[ref]) status = list_add(ordered, ref);
    }
    return status;
}

/* Counts what each part now holds, and where. */
static jfs_status count_parts(jfs_state *state, queue_item *queue, const queue_item *before) {
    for (uint32_t i = 0; i < before->parts.count; i++) {
        const jfs_status status = VECTOR_ROOM(&queue->parts);
        part_item *part;
        if (status != JFS_OK) return status;
        part = &queue->parts.items[queue->parts.count++];
        *part = before->parts.items[i];
        part->live_bytes = 0;
        part->live_count = 0;
        part->first = JFS_NONE;
        part->last = 0;
    }
    queue->next_part = before->next_part;
    queue->tail_from = queue->arrival.count;
    for (uint32_t at = queue->arrival.count; at-- > 0;) {
        ref_item *const r = &state->refs.items[queue->arrival.items[at]];
        part_item *const part = r->part == 0 ? NULL : part_find(queue, r->part);
        if (part == NULL) {
            r->part = 0;
            queue->tail_from = at;
            continue;
        }
        part->live_bytes += ref_line_bytes(state, r, 1, 0);
        if (part->live_count++ == 0) part->last = at;
        part->first = at;
    }
    parts_compact(queue);
    return JFS_OK;
}

static jfs_status adopt_queue(jfs_state *state, uint32_t slot, const jfs_state *old, const queue_item *before,
                              uint8_t *seen) {
    queue_item *const queue = &state->queues.items[slot];
    ref_list ordered = {0};
    jfs_status status = ordered_refs(state, slot, old, before, seen, &ordered);
    if (status != JFS_OK) {
        free(ordered.items);
        return status;
    }
    free(queue->arrival.items);
    queue->arrival.items = ordered.items;
    queue->arrival.count = ordered.count;
    queue->arrival.capacity = ordered.capacity;
    queue->held = ordered.count;
    for (uint32_t i = 0; i < ordered.count; i++) state->refs.items[ordered.items[i]].position = i;
    VECTOR_SHRINK(&queue->arrival);
    status = count_parts(state, queue, before);
    queue->version++;
    return status;
}

jfs_status jfs_state_adopt(jfs_state *state, const jfs_state *old) {
    jfs_status status = JFS_OK;
    uint8_t *seen = calloc(state->refs.count + 1, 1);
    if (seen == NULL) return JFS_NO_MEMORY;
    for (uint32_t i = 0; i < old->queues.count && status == JFS_OK; i++) {
        const queue_item *const before = &old->queues.items[i];
        uint32_t slot;
        status = queue_slot(state, before->queue_id, &slot);
        if (status == JFS_OK && state->queues.items[slot].parts.count > 0) status = JFS_RANGE;
        if (status == JFS_OK) status = adopt_queue(state, slot, old, before, seen);
    }
    free(seen);
    return status;
}
