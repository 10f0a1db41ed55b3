/* The live set from a checkpoint. Whatever does not fit together is refused: no index in it is believed. */
#include "checkpoint.h"

static void get(const uint8_t **from, void *item, size_t bytes) {
    memcpy(item, *from, bytes);
    *from += bytes;
}

static int message_fits(const saved_message *saved) {
    const int known = MESSAGE_USED | MESSAGE_MEASURED | MESSAGE_LARGE_SOURCE | MESSAGE_KEPT;
    const int sources = JFS_SOURCE_PERSISTER | JFS_SOURCE_CORE_LARGE | JFS_SOURCE_UNREADABLE;
    return (saved->state & MESSAGE_USED) && (saved->state & ~known) == 0 && saved->tail_bytes >> 40 == 0 &&
           saved->file_bytes >> 40 == 0 && saved->suffix <= JFS_SUFFIX_SER && (saved->source & ~sources) == 0;
}

static jfs_status load_messages(jfs_state *state, const uint8_t *from, uint32_t count) {
    jfs_status status = JFS_OK;
    int ascending = 1; /* ids of a journal that was never compacted are: then none can be there twice */
    if (count > 0) {
        status = vector_grow(&state->messages.items, &state->messages.capacity, sizeof(message_item), count);
    }
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        saved_message saved;
        message_item *m;
        get(&from, &saved, sizeof saved);
        if (!message_fits(&saved)) return JFS_MALFORMED;
        if (i > 0 && saved.id <= state->messages.items[i - 1].id) ascending = 0;
        m = &state->messages.items[state->messages.count++];
        *m = (message_item){.id = saved.id,
                            .timestamp_ms = saved.timestamp_ms,
                            .body_offset = saved.body_offset,
                            .body_bytes = saved.body_bytes,
                            .tail_low = (uint32_t)saved.tail_bytes,
                            .tail_high = (uint8_t)(saved.tail_bytes >> 32),
                            .file_low = (uint32_t)saved.file_bytes,
                            .file_high = (uint8_t)(saved.file_bytes >> 32),
                            .file_slot = saved.file_slot,
                            .first_ref = JFS_NONE,
                            .priority = saved.priority,
                            .suffix = saved.suffix,
                            .flags = saved.flags,
                            .source = saved.source,
                            .state = saved.state};
        state->live_messages++;
        if (!(m->state & MESSAGE_MEASURED)) state->unmeasured++;
    }
    if (status != JFS_OK) return status;
    return index_fill(&state->message_index, state->messages.items, sizeof(message_item), count, ascending);
}

static jfs_status load_decor(jfs_state *state, uint32_t ref, const saved_ref *saved) {
    jfs_status status;
    decor_item *decor;
    if (saved->scheduled_ms < 0 || saved->sealed_scheduled_ms < 0) return JFS_MALFORMED;
    if (saved->delivery_count < 0 || saved->sealed_delivery_count < 0) return JFS_MALFORMED;
    if (saved->scheduled_ms == 0 && saved->sealed_scheduled_ms == 0 && saved->delivery_count == 0 &&
        saved->sealed_delivery_count == 0) {
        return JFS_OK;
    }
    status = ref_decorate(state, ref, 34, 1); /* any value makes the reference have some */
    if (status != JFS_OK) return status;
    decor = &state->decors.items[state->refs.items[ref].decor];
    *decor = (decor_item){saved->scheduled_ms, saved->sealed_scheduled_ms, saved->delivery_count,
                          saved->sealed_delivery_count};
    return JFS_OK;
}

static jfs_status load_ref(jfs_state *state, uint32_t slot, const saved_ref *saved) {
    queue_item *const queue = &state->queues.items[slot];
    const uint32_t ref = state->refs.count;
    ref_item *r;
    jfs_status status;
    if (saved->message >= state->messages.count) return JFS_MALFORMED;
    if (saved->state != REF_LIVE && saved->state != REF_DELIVERING) return JFS_MALFORMED;
    status = ref_add(state, saved->message, slot);
    if (status != JFS_OK) return status;
    if (state->refs.count != ref + 1) return JFS_MALFORMED; /* the same pair twice */
    r = &state->refs.items[ref];
    status = load_decor(state, ref, saved);
    if (status != JFS_OK) return status;
    if (saved->part != 0) {
        part_item *const part = part_find(queue, saved->part);
        if (part == NULL || saved->state != REF_LIVE) return JFS_MALFORMED;
        r->part = saved->part;
        if (part->live_count++ == 0) part->first = r->position;
        part->last = r->position;
        part->live_bytes += ref_line_bytes(state, r, 1, 0);
    } else if (queue->tail_from == JFS_NONE) {
        queue->tail_from = r->position;
    }
    if (saved->state == REF_DELIVERING) ref_hide(state, ref);
    return JFS_OK;
}

static jfs_status load_parts(queue_item *queue, const saved_queue *saved, const uint8_t **from) {
    uint32_t last = 0;
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < saved->parts; i++) {
        saved_part part;
        get(from, &part, sizeof part);
        if (part.number <= last || part.number >= saved->next_part) return JFS_MALFORMED;
        last = part.number;
        status = VECTOR_ROOM(&queue->parts);
        if (status != JFS_OK) return status;
        queue->parts.items[queue->parts.count++] = (part_item){.mtime_ms = part.mtime_ms, .number = part.number};
    }
    queue->next_part = saved->next_part;
    return JFS_OK;
}

static jfs_status load_queues(jfs_state *state, const uint8_t *bytes, const saved_head *head, const places *at) {
    const uint8_t *queues = bytes + at->queues, *refs = bytes + at->refs, *parts = bytes + at->parts;
    uint32_t refs_left = head->refs, parts_left = head->parts;
    jfs_status status = JFS_OK;
    if (head->refs > 0) status = vector_grow(&state->refs.items, &state->refs.capacity, sizeof(ref_item), head->refs);
    for (uint32_t i = 0; i < head->queues && status == JFS_OK; i++) {
        saved_queue saved;
        uint32_t slot;
        get(&queues, &saved, sizeof saved);
        if (saved.refs > refs_left || saved.parts > parts_left || saved.next_part == 0) return JFS_MALFORMED;
        if (saved.next_part > next_part_max) return JFS_MALFORMED;
        refs_left -= saved.refs;
        parts_left -= saved.parts;
        status = queue_slot(state, saved.queue_id, &slot);
        if (status == JFS_OK && slot != i) return JFS_MALFORMED;
        if (status == JFS_OK) status = load_parts(&state->queues.items[i], &saved, &parts);
        if (status == JFS_OK && saved.refs > 0) {
            queue_item *const queue = &state->queues.items[i];
            status = vector_grow(&queue->arrival.items, &queue->arrival.capacity, sizeof(uint32_t), saved.refs);
        }
        if (status != JFS_OK) return status;
        state->queues.items[i].tail_from = JFS_NONE;
        for (uint32_t k = 0; k < saved.refs && status == JFS_OK; k++) {
            saved_ref ref;
            get(&refs, &ref, sizeof ref);
            status = load_ref(state, i, &ref);
        }
        if (state->queues.items[i].tail_from == JFS_NONE) {
            state->queues.items[i].tail_from = state->queues.items[i].arrival.count;
        }
        state->queues.items[i].version = saved.version;
    }
    return status != JFS_OK || (refs_left == 0 && parts_left == 0) ? status : JFS_MALFORMED;
}

static jfs_status load_txs(jfs_state *state, const uint8_t *bytes, const saved_head *head, const places *at) {
    const uint8_t *txs = bytes + at->txs, *operations = bytes + at->operations;
    uint32_t left = head->operations;
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < head->txs && status == JFS_OK; i++) {
        saved_tx saved;
        tx_item tx;
        get(&txs, &saved, sizeof saved);
        if (saved.operations > left || saved.flags > UINT8_MAX) return JFS_MALFORMED;
        left -= saved.operations;
        tx = (tx_item){.tx_id = saved.tx_id,
                       .sequence = saved.sequence,
                       .operations = saved.operations,
                       .counted_slot = saved.counted_slot,
                       .counted = saved.counted,
                       .file_slot = saved.file_slot,
                       .extra_offset = saved.extra_offset,
                       .extra_bytes = saved.extra_bytes,
                       .flags = (uint8_t)saved.flags};
        status = tx_restore(state, &tx, operations);
        operations += saved.operations * sizeof(jfs_operation);
    }
    return status != JFS_OK || left == 0 ? status : JFS_MALFORMED;
}

static jfs_status load_rest(jfs_state *state, const uint8_t *bytes, const saved_head *head, const places *at) {
    const uint8_t *sides = bytes + at->sides;
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < head->sides && status == JFS_OK; i++) {
        jfs_operation op;
        get(&sides, &op, sizeof op);
        if (op.kind == 0) return JFS_MALFORMED;
        status = side_add(state, &op);
    }
    for (uint32_t i = 0; i < head->anomalies && status == JFS_OK; i++) {
        jfs_anomaly anomaly;
        memcpy(&anomaly, bytes + at->anomalies + i * sizeof anomaly, sizeof anomaly);
        if (anomaly.kind < JFS_ANOMALY_REF_OF_UNKNOWN || anomaly.kind > JFS_ANOMALY_IN_DAMAGE) return JFS_MALFORMED;
        status = VECTOR_ROOM(&state->anomalies);
        if (status == JFS_OK) state->anomalies.items[state->anomalies.count++] = anomaly;
    }
    state->anomalies_seen = head->anomalies_seen;
    state->side_version = head->side_version;
    state->highest_id = head->highest_id;
    return status;
}

/* Each message has one at most, which `add` marks with `mark`. */
static jfs_status load_times(jfs_state *state, const uint8_t *from, uint32_t count, uint8_t mark,
                             jfs_status (*add)(jfs_state *state, uint32_t message, int64_t time_ms)) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        saved_time saved;
        get(&from, &saved, sizeof saved);
        if (saved.message >= state->messages.count || saved.time_ms <= 0) return JFS_MALFORMED;
        if (state->messages.items[saved.message].state & mark) return JFS_MALFORMED;
        status = add(state, saved.message, saved.time_ms);
    }
    return status;
}

jfs_status jfs_state_load(const uint8_t *bytes, uint64_t size_bytes, jfs_state **out) {
    saved_head head;
    places at;
    jfs_state *state = NULL;
    jfs_status status = JFS_MALFORMED;
    *out = NULL;
    if (size_bytes < sizeof head) goto done;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, checkpoint_magic, sizeof checkpoint_magic) != 0) goto done;
    if (head.layout_version != LAYOUT_VERSION || head.item_bytes != ITEM_BYTES) goto done;
    at = place(&head);
    if (at.end != size_bytes) goto done;
    status = jfs_state_new(&state);
    if (status == JFS_OK) status = load_messages(state, bytes + at.messages, head.messages);
    if (status == JFS_OK) status = load_queues(state, bytes, &head, &at);
    if (status == JFS_OK) status = load_txs(state, bytes, &head, &at);
    if (status == JFS_OK) status = load_rest(state, bytes, &head, &at);
    if (status == JFS_OK) status = load_times(state, bytes + at.expiries, head.expiries, MESSAGE_EXPIRES, expiry_add);
    /* The references have their schedules already. */
    if (status == JFS_OK) status = load_times(state, bytes + at.schedules, head.schedules, MESSAGE_SCHEDULED, schedule_add);
    if (status != JFS_OK) goto done;
    state->finished = 1;
    /* What was not measured when it was saved is asked for again. */
    state->measure_all = state->unmeasured > 0;
    state_shrink(state);
done:
    if (status == JFS_OK) {
        *out = state;
    } else {
        jfs_state_free(state);
    }
    return status;
}
