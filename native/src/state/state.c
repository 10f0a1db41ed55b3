/* The live set as a whole: its life, the end of the load, and questions about single items. */
#include "state_internal.h"

jfs_status jfs_state_new(jfs_state **out) {
    jfs_status status = JFS_NO_MEMORY;
    jfs_state *state = calloc(1, sizeof *state);
    *out = NULL;
    if (state == NULL) goto done;
    state->free_message = state->free_ref = state->free_wide = state->free_op = state->free_tx = JFS_NONE;
    state->free_coming = state->undone_op = state->undone_last = state->undone_coming = JFS_NONE;
    state->free_schedule = JFS_NONE;
    state->last_queue = JFS_NONE;
    state->highest_id = -1;
    state->page_changes_lost = 1;
    if (index_init(&state->message_index) != JFS_OK || index_init(&state->wide_index) != JFS_OK ||
        index_init(&state->queue_index) != JFS_OK || index_init(&state->tx_index) != JFS_OK ||
        index_init(&state->side_index) != JFS_OK || index_init(&state->schedule_index) != JFS_OK) {
        goto done;
    }
    *out = state;
    status = JFS_OK;
done:
    if (status != JFS_OK) jfs_state_free(state);
    return status;
}

void jfs_state_free(jfs_state *state) {
    if (state == NULL) return;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        free(state->queues.items[i].arrival.items);
        free(state->queues.items[i].parts.items);
    }
    free(state->messages.items);
    free(state->refs.items);
    free(state->decors.items);
    free(state->wides.items);
    free(state->queues.items);
    for (uint32_t i = 0; i < state->comings.count; i++) free(state->comings.items[i].queue.arrival.items);
    free(state->comings.items);
    free(state->ops.items);
    free(state->txs.items);
    free(state->sides.items);
    free(state->page_changes.items);
    free(state->anomalies.items);
    free(state->ends.items);
    free(state->pending.items);
    free(state->expiries.items);
    free(state->schedules.items);
    index_free(&state->message_index);
    index_free(&state->wide_index);
    index_free(&state->queue_index);
    index_free(&state->tx_index);
    index_free(&state->side_index);
    index_free(&state->schedule_index);
    id_set_free(&state->deleted);
    free(state);
}

/* A delete removes every record of its id, earlier or later in the journal. */
static void sweep_deleted(jfs_state *state) {
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if ((m->state & MESSAGE_USED) && id_set_has(&state->deleted, m->id)) message_remove(state, i);
    }
    sides_sweep(state);
    anomalies_sweep(state);
}

static jfs_status drop_unreferenced(jfs_state *state) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < state->messages.count && status == JFS_OK; i++) {
        const message_item m = state->messages.items[i];
        if (!(m.state & MESSAGE_USED) || m.first_ref != JFS_NONE || (m.state & MESSAGE_KEPT)) continue;
        status = anomaly_add(state, JFS_ANOMALY_NO_REFERENCES, m.id, 0, m.file_slot, m.body_offset);
        message_remove(state, i);
    }
    return status;
}

jfs_status jfs_state_finish(jfs_state *state, int keep_unreferenced) {
    jfs_status status = JFS_OK;
    if (state->finished) return JFS_RANGE;
    sweep_deleted(state);
    status = tx_finish(state);
    if (status == JFS_OK && !keep_unreferenced) status = drop_unreferenced(state);
    if (status != JFS_OK) return status;
    if (state->anomalies.count > JFS_ANOMALIES_MAX) state->anomalies.count = JFS_ANOMALIES_MAX;
    id_set_free(&state->deleted);
    state->finished = 1;
    state->measure_all = 1;
    return state_compact(state);
}

uint64_t jfs_state_memory(const jfs_state *state) {
    uint64_t bytes = sizeof *state + VECTOR_BYTES(&state->messages) + VECTOR_BYTES(&state->refs) +
                     VECTOR_BYTES(&state->decors) + VECTOR_BYTES(&state->wides) + VECTOR_BYTES(&state->queues) +
                     VECTOR_BYTES(&state->ops) + VECTOR_BYTES(&state->comings) + VECTOR_BYTES(&state->txs) + VECTOR_BYTES(&state->sides) +
                     VECTOR_BYTES(&state->anomalies) + VECTOR_BYTES(&state->pending) + VECTOR_BYTES(&state->expiries) +
                     VECTOR_BYTES(&state->ends) + VECTOR_BYTES(&state->page_changes) + VECTOR_BYTES(&state->schedules);
    bytes += index_bytes(&state->message_index) + index_bytes(&state->wide_index) +
             index_bytes(&state->queue_index) + index_bytes(&state->tx_index) + index_bytes(&state->side_index) +
             index_bytes(&state->schedule_index);
    if (state->deleted.cells != NULL) bytes += (state->deleted.mask + 1) * sizeof *state->deleted.cells;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        bytes += VECTOR_BYTES(&state->queues.items[i].arrival) + VECTOR_BYTES(&state->queues.items[i].parts);
    }
    for (uint32_t i = 0; i < state->comings.count; i++) bytes += VECTOR_BYTES(&state->comings.items[i].queue.arrival);
    return bytes;
}

void jfs_state_count(const jfs_state *state, jfs_state_counts *out) {
    memset(out, 0, sizeof *out);
    out->messages = state->live_messages;
    out->references = state->live_refs;
    out->queues = state->queues.count;
    out->side_records = state->live_sides;
    out->side_version = state->side_version;
    out->transactions = state->open_txs;
    out->anomalies = state->anomalies_seen;
    out->highest_id = state->highest_id;
    out->finished = state->finished;
}

jfs_status jfs_state_anomalies(const jfs_state *state, jfs_anomaly *out, uint32_t capacity, uint32_t *count) {
    for (uint32_t i = 0; i < state->anomalies.count && i < capacity; i++) out[i] = state->anomalies.items[i];
    return listed(state->anomalies.count, capacity, count);
}

jfs_status jfs_state_ref(const jfs_state *state, uint32_t ref, jfs_ref_info *out) {
    const ref_item *r;
    const message_item *m;
    if (ref >= state->refs.count || state->refs.items[ref].state == REF_FREE) return JFS_RANGE;
    r = &state->refs.items[ref];
    m = &state->messages.items[r->message];
    memset(out, 0, sizeof *out);
    out->message_id = m->id;
    out->timestamp_ms = m->timestamp_ms;
    out->tail_bytes = message_tail_bytes(m);
    out->file_bytes = message_file_bytes(m);
    out->message = r->message;
    out->queue = r->queue;
    out->part = r->part;
    out->file_slot = m->file_slot;
    out->body_offset = m->body_offset;
    out->body_bytes = m->body_bytes;
    out->source = m->source;
    out->state = (uint8_t)r->state;
    out->priority = m->priority;
    out->suffix = m->suffix;
    out->flags = m->flags;
    out->measured = (m->state & MESSAGE_MEASURED) != 0;
    ref_decor_values(state, r, 0, 0, &out->delivery_count, &out->scheduled_ms);
    out->own_scheduled_ms = schedule_of(state, r->message);
    return JFS_OK;
}

jfs_status jfs_state_find(const jfs_state *state, uint32_t slot, int64_t message_id, uint32_t *ref) {
    const uint32_t message = message_find(state, message_id);
    *ref = JFS_NONE;
    if (slot >= state->queues.count) return JFS_RANGE;
    if (message != JFS_NONE) *ref = ref_find(state, message, slot);
    return JFS_OK;
}

jfs_status jfs_state_record_place(const jfs_state *state, uint32_t slot, int64_t message_id, jfs_record_place *out) {
    jfs_ref_info info;
    uint32_t ref;
    if (jfs_state_find(state, slot, message_id, &ref) != JFS_OK || ref == JFS_NONE) return JFS_RANGE;
    if (jfs_state_ref(state, ref, &info) != JFS_OK) return JFS_RANGE;
    *out = (jfs_record_place){
        .message_id = message_id,
        .scheduled_ms = info.scheduled_ms,
        .file_slot = info.file_slot,
        .body_offset = info.body_offset,
        .body_bytes = info.body_bytes,
        .source = info.source,
    };
    return JFS_OK;
}

jfs_status jfs_state_record_places(const jfs_state *state, uint32_t slot, const int64_t *ids, uint32_t count,
                                   jfs_record_place *out, uint32_t *found, uint8_t *used, uint32_t file_count) {
    *found = 0;
    for (uint32_t i = 0; i < count; i++) {
        jfs_record_place *const place = &out[*found];
        if (jfs_state_record_place(state, slot, ids[i], place) != JFS_OK) continue;
        (*found)++;
        if (place->file_slot < file_count) used[place->file_slot] = 1;
    }
    return JFS_OK;
}

jfs_status jfs_state_message_refs(const jfs_state *state, int64_t message_id, uint32_t *out, uint32_t capacity,
                                  uint32_t *count) {
    const uint32_t message = message_find(state, message_id);
    uint32_t found = 0;
    *count = 0;
    if (message == JFS_NONE) return JFS_OK;
    for (uint32_t ref = state->messages.items[message].first_ref; ref != JFS_NONE;
         ref = state->refs.items[ref].next) {
        if (state->refs.items[ref].queue & COMING) continue;
        if (found < capacity) out[found] = ref;
        found++;
    }
    return listed(found, capacity, count);
}

void jfs_state_used_files(const jfs_state *state, uint8_t *used, uint32_t file_count) {
    memset(used, 0, file_count);
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if ((m->state & MESSAGE_USED) && m->file_slot < file_count) used[m->file_slot] = 1;
    }
    for (uint32_t i = 0; i < state->sides.count; i++) {
        const jfs_operation *const op = &state->sides.items[i].op;
        if (op->kind != 0 && op->file_slot < file_count) used[op->file_slot] = 1;
    }
    for (uint32_t i = 0; i < state->txs.count; i++) {
        const tx_item *const tx = &state->txs.items[i];
        if (!tx->used) continue;
        if ((tx->flags & JFS_TX_PREPARED) && tx->file_slot < file_count) used[tx->file_slot] = 1;
        for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
            if (state->ops.items[op].op.file_slot < file_count) used[state->ops.items[op].op.file_slot] = 1;
        }
    }
}
