/* Transactions: their records wait here until they commit. */
#include "state_internal.h"

enum { OPS_KEPT = 4096 };

static uint32_t tx_find(const jfs_state *state, int64_t tx_id) {
    return index_find(&state->tx_index, state->txs.items, sizeof(tx_item), tx_id);
}

static int is_prepared(const tx_item *tx) { return (tx->flags & (JFS_TX_PREPARED | JFS_TX_INVALID)) == JFS_TX_PREPARED; }

static void tx_free(jfs_state *state, uint32_t found) {
    JFS_ASSERT(found < state->txs.count);
    JFS_ASSERT(state->txs.items[found].used);
    JFS_ASSERT(state->open_txs > 0);
    tx_item *const tx = &state->txs.items[found];
    index_remove(&state->tx_index, state->txs.items, sizeof *tx, tx->tx_id);
    if (tx->first_op != JFS_NONE) {
        state->ops.items[tx->last_op].next = state->free_op;
        state->free_op = tx->first_op;
    }
    coming_free(state, &tx->first_coming);
    tx->used = 0;
    tx->first_op = state->free_tx;
    state->free_tx = found;
    state->open_txs--;
    if (state->open_txs == 0 && state->undone_op == JFS_NONE && state->ops.capacity > OPS_KEPT) {
        state->ops.count = 0;
        state->free_op = JFS_NONE;
    }
}

static jfs_status tx_get(jfs_state *state, int64_t tx_id, uint32_t file_slot, uint32_t *found) {
    tx_item *tx;
    jfs_status status = JFS_OK;
    *found = tx_find(state, tx_id);
    if (*found != JFS_NONE && !(state->txs.items[*found].flags & JFS_TX_ENDED)) return JFS_OK;
    if (*found != JFS_NONE) tx_free(state, *found); /* its number is used again */
    if (state->free_tx != JFS_NONE) {
        *found = state->free_tx;
        state->free_tx = state->txs.items[*found].first_op;
    } else {
        status = VECTOR_ROOM(&state->txs);
        if (status != JFS_OK) return status;
        *found = state->txs.count++;
    }
    tx = &state->txs.items[*found];
    memset(tx, 0, sizeof *tx);
    tx->tx_id = tx_id;
    tx->sequence = state->tx_sequence++;
    tx->first_op = JFS_NONE;
    tx->last_op = JFS_NONE;
    tx->hidden_op = JFS_NONE;
    tx->first_coming = JFS_NONE;
    tx->counted_slot = file_slot;
    tx->used = 1;
    state->open_txs++;
    return index_add(&state->tx_index, state->txs.items, sizeof *tx, *found);
}

static int adds_message(const jfs_operation *operation) {
    return operation->kind == JFS_ADD &&
           (operation->user_type == TYPE_MESSAGE || operation->user_type == TYPE_LARGE_MESSAGE);
}

/* Takes in what a commit will take the longest for: the message, in no queue yet, so that it is measured while others
 * come. What it is known by is noted in the operation, in a number that none of these types has.
 */
static jfs_status tx_foresee(jfs_state *state, jfs_operation *operation) {
    const int about_refs = operation->user_type == TYPE_ADD_REFERENCE || operation->user_type == TYPE_ACKNOWLEDGE_REFERENCE;
    jfs_status status = JFS_OK;
    uint32_t message;
    if (!adds_message(operation) && !(operation->kind == JFS_UPDATE && about_refs)) return JFS_OK;
    message = message_find(state, operation->record_id);
    if (message == JFS_NONE && adds_message(operation)) {
        status = message_add(state, operation);
        message = message_find(state, operation->record_id);
    }
    if (message != JFS_NONE) operation->c = (int64_t)message + 1;
    return status;
}

static void unforesee(jfs_state *state, const jfs_operation *operation) {
    const uint32_t message = adds_message(operation) ? message_of_operation(state, operation) : JFS_NONE;
    const message_item *const m = message == JFS_NONE ? NULL : &state->messages.items[message];
    const int shows = m != NULL && m->first_ref != JFS_NONE && !(state->refs.items[m->first_ref].queue & COMING);
    if (m == NULL || shows || m->file_slot != operation->file_slot || m->body_offset != operation->body_offset) return;
    message_remove(state, message);
}

/* The transaction came to nothing. */
static void tx_unforesee(jfs_state *state, tx_item *tx) {
    for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
        unforesee(state, &state->ops.items[op].op);
    }
    coming_free(state, &tx->first_coming);
}

/* The same for a long one, of which nobody sees anything: bit by bit. */
static void tx_leave_undone(jfs_state *state, tx_item *tx) {
    JFS_ASSERT(tx->comes);
    JFS_ASSERT(tx->first_op != JFS_NONE);
    JFS_ASSERT(state->ops.items[tx->last_op].next == JFS_NONE);
    uint32_t *link = &state->undone_coming;
    while (*link != JFS_NONE) link = &state->comings.items[*link].next;
    *link = tx->first_coming;
    if (state->undone_op == JFS_NONE) {
        state->undone_op = tx->first_op;
    } else {
        state->ops.items[state->undone_last].next = tx->first_op;
    }
    state->undone_last = tx->last_op;
    tx->first_op = tx->first_coming = JFS_NONE;
}

int jfs_state_settle(jfs_state *state, uint32_t operations) {
    const uint32_t room = state->ops.capacity, less = room / 16 > operations ? room / 16 : operations;
    uint32_t op = state->undone_op;
    for (; op != JFS_NONE && operations > 0; operations--) {
        const uint32_t next = state->ops.items[op].next;
        unforesee(state, &state->ops.items[op].op);
        state->ops.items[op].next = state->free_op;
        state->free_op = op;
        op = next;
    }
    state->undone_op = op;
    if (op != JFS_NONE) return 1;
    coming_free(state, &state->undone_coming);
    if (state->open_txs > 0 || room <= OPS_KEPT) return 0;
    state->ops.count = 0;
    state->free_op = JFS_NONE;
    vector_shrink(&state->ops.items, &state->ops.capacity, sizeof *state->ops.items,
                  room - OPS_KEPT > less ? room - less : OPS_KEPT);
    return state->ops.capacity > OPS_KEPT && state->ops.capacity < room;
}

void jfs_state_foresee(jfs_state *state) { state->foresees = 1; }

/* Only the records in the file of the COMMIT or PREPARE are counted: the count starts again with each file. */
static uint32_t counted_in(tx_item *tx, uint32_t file_slot) {
    if (tx->counted_slot != file_slot) {
        tx->counted_slot = file_slot;
        tx->counted = 0;
    }
    return tx->counted;
}

static jfs_status tx_append(jfs_state *state, uint32_t found, uint32_t file_slot, const jfs_operation *operation) {
    JFS_ASSERT(found < state->txs.count);
    JFS_ASSERT(state->txs.items[found].used);
    JFS_ASSERT(!(state->txs.items[found].flags & JFS_TX_ENDED));
    tx_item *const tx = &state->txs.items[found];
    uint32_t op = state->free_op;
    if (op != JFS_NONE) {
        state->free_op = state->ops.items[op].next;
    } else {
        const jfs_status status = VECTOR_ROOM(&state->ops);
        if (status != JFS_OK) return status;
        op = state->ops.count++;
    }
    state->ops.items[op].op = *operation;
    state->ops.items[op].next = JFS_NONE;
    if (tx->first_op == JFS_NONE) {
        tx->first_op = op;
    } else {
        state->ops.items[tx->last_op].next = op;
    }
    tx->last_op = op;
    tx->operations++;
    tx->counted = counted_in(tx, file_slot) + 1;
    return JFS_OK;
}

/* What an operation acknowledges, if that is what it does and it is there. */
static uint32_t acknowledged_ref(jfs_state *state, const jfs_operation *operation) {
    uint32_t message, slot;
    if (operation->kind != JFS_UPDATE && operation->kind != JFS_ADD) return JFS_NONE;
    if (operation->user_type != TYPE_ACKNOWLEDGE_REFERENCE) return JFS_NONE;
    message = message_find(state, operation->record_id);
    slot = queue_find(state, operation->a);
    return message == JFS_NONE || slot == JFS_NONE ? JFS_NONE : ref_find(state, message, slot);
}

/* A hostile file may prepare again after every record: each operation is looked at once. */
static void tx_hide(jfs_state *state, tx_item *tx) {
    JFS_ASSERT(tx->used);
    uint32_t op = state->history ? JFS_NONE : tx->hidden_op == JFS_NONE ? tx->first_op : state->ops.items[tx->hidden_op].next;
    for (; op != JFS_NONE; op = state->ops.items[op].next) {
        jfs_operation *const operation = &state->ops.items[op].op;
        const uint32_t ref = acknowledged_ref(state, operation);
        if (ref == JFS_NONE) continue;
        operation->b = ACK_OF_FOUND;
        ref_hide(state, ref);
    }
    tx->hidden_op = tx->last_op;
}

static void tx_show(jfs_state *state, tx_item *tx) {
    JFS_ASSERT(tx->used);
    uint32_t op = tx->hidden_op == JFS_NONE ? JFS_NONE : tx->first_op;
    for (; op != JFS_NONE; op = state->ops.items[op].next) {
        const uint32_t ref = acknowledged_ref(state, &state->ops.items[op].op);
        if (ref != JFS_NONE) ref_show(state, ref);
    }
    tx->hidden_op = JFS_NONE;
}

static jfs_status tx_prepare(jfs_state *state, uint32_t file_slot, const jfs_record *record) {
    uint32_t found;
    tx_item *tx;
    jfs_status status = tx_get(state, record->tx_id, file_slot, &found);
    if (status != JFS_OK) return status;
    tx = &state->txs.items[found];
    tx->flags |= JFS_TX_PREPARED;
    tx->file_slot = file_slot;
    tx->extra_offset = record->body_offset;
    tx->extra_bytes = record->body_bytes;
    if (record->count < 0 || counted_in(tx, file_slot) != (uint32_t)record->count) {
        tx->flags |= JFS_TX_INVALID;
        tx_show(state, tx);
        return anomaly_add(state, JFS_ANOMALY_PREPARE_INCOMPLETE, record->tx_id, record->count, file_slot,
                           record->offset);
    }
    if (state->finished && is_prepared(tx)) tx_hide(state, tx);
    return JFS_OK;
}

/* Adds and updates take effect in their order, then the deletes. */
static jfs_status tx_effects(jfs_state *state, const tx_item *tx) {
    JFS_ASSERT(tx->used);
    jfs_status status = JFS_OK;
    for (int deletes = 0; deletes <= 1; deletes++) {
        for (uint32_t op = tx->first_op; op != JFS_NONE && status == JFS_OK; op = state->ops.items[op].next) {
            const jfs_operation *const operation = &state->ops.items[op].op;
            if (operation->kind == 0 || (operation->kind == JFS_DELETE) != deletes) continue;
            status = effect_apply(state, operation);
        }
    }
    return status;
}

static jfs_status tx_commit(jfs_state *state, uint32_t file_slot, const jfs_record *record) {
    const uint32_t found = tx_find(state, record->tx_id);
    tx_item *tx;
    jfs_status status = JFS_OK;
    if (found == JFS_NONE || (state->txs.items[found].flags & JFS_TX_ENDED)) {
        /* Where its records lay in files that were reclaimed, nothing of it is counted here. */
        if (record->count <= 0) return JFS_OK;
        return anomaly_add(state, JFS_ANOMALY_COMMIT_INCOMPLETE, record->tx_id, record->count, file_slot,
                           record->offset);
    }
    tx = &state->txs.items[found];
    if (record->count >= 0 && counted_in(tx, file_slot) == (uint32_t)record->count) {
        status = coming_arrive(state, tx);
        if (status == JFS_OK && tx->foreseen < tx->operations) status = tx_effects(state, tx);
        tx_free(state, found);
        return status;
    }
    tx_show(state, tx);
    tx_unforesee(state, tx);
    tx->flags |= JFS_TX_INVALID | JFS_TX_ENDED;
    return anomaly_add(state, JFS_ANOMALY_COMMIT_INCOMPLETE, record->tx_id, record->count, file_slot, record->offset);
}

static void tx_rollback(jfs_state *state, int64_t tx_id) {
    const uint32_t found = tx_find(state, tx_id);
    if (found == JFS_NONE) return;
    tx_show(state, &state->txs.items[found]);
    if (state->txs.items[found].comes) {
        tx_leave_undone(state, &state->txs.items[found]);
    } else {
        tx_unforesee(state, &state->txs.items[found]);
    }
    tx_free(state, found);
}

jfs_status tx_record(jfs_state *state, uint32_t file_slot, const jfs_record *record, jfs_operation *operation) {
    uint32_t found;
    jfs_status status = JFS_OK;
    switch (record->kind) {
        case JFS_PREPARE: return tx_prepare(state, file_slot, record);
        case JFS_COMMIT: return tx_commit(state, file_slot, record);
        case JFS_ROLLBACK: tx_rollback(state, record->tx_id); return JFS_OK;
        default:
            if (state->foresees && state->finished) status = tx_foresee(state, operation);
            if (status == JFS_OK) status = tx_get(state, record->tx_id, file_slot, &found);
            if (status == JFS_OK) status = tx_append(state, found, file_slot, operation);
            if (status == JFS_OK && state->foresees && state->finished) status = coming_take(state, found);
            /* No broker adds to a prepared transaction; a file that does means the same during the load and after. */
            if (status == JFS_OK && state->finished && is_prepared(&state->txs.items[found])) {
                tx_hide(state, &state->txs.items[found]);
            }
            return status;
    }
}

/* Open transactions stay: a broker may be at work, and will end them. Prepared ones hide what they acknowledge. */
jfs_status tx_finish(jfs_state *state) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < state->txs.count && status == JFS_OK; i++) {
        tx_item *const tx = &state->txs.items[i];
        if (!tx->used) continue;
        for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
            const jfs_operation *const operation = &state->ops.items[op].op;
            const uint32_t message =
                operation->user_type == TYPE_ADD_REFERENCE ? message_find(state, operation->record_id) : JFS_NONE;
            if (message != JFS_NONE) state->messages.items[message].state |= MESSAGE_KEPT;
        }
        if (is_prepared(tx)) {
            tx_hide(state, tx);
        } else if (!(tx->flags & JFS_TX_ENDED)) {
            status = anomaly_add(state, JFS_ANOMALY_TX_UNFINISHED, tx->tx_id, tx->operations, tx->counted_slot, 0);
        }
    }
    return status;
}

/* A transaction from a checkpoint: `operations` are as many as it names. */
jfs_status tx_restore(jfs_state *state, const tx_item *saved, const uint8_t *operations) {
    uint32_t found = tx_find(state, saved->tx_id);
    tx_item *tx;
    jfs_status status = JFS_MALFORMED;
    /* More records counted than there are operations: a COMMIT of that many would be believed without them. */
    if (found == JFS_NONE && saved->counted <= saved->operations) {
        status = tx_get(state, saved->tx_id, saved->counted_slot, &found);
    }
    for (uint32_t i = 0; i < saved->operations && status == JFS_OK; i++) {
        jfs_operation operation;
        memcpy(&operation, operations + i * sizeof operation, sizeof operation);
        status = tx_append(state, found, saved->counted_slot, &operation);
    }
    if (status != JFS_OK) return status;
    tx = &state->txs.items[found];
    tx->counted = saved->counted;
    tx->sequence = saved->sequence;
    if (state->tx_sequence <= saved->sequence) state->tx_sequence = saved->sequence + 1;
    tx->file_slot = saved->file_slot;
    tx->extra_offset = saved->extra_offset;
    tx->extra_bytes = saved->extra_bytes;
    tx->flags = saved->flags;
    if (is_prepared(tx)) tx->hidden_op = tx->last_op; /* the references were saved as hidden */
    return JFS_OK;
}

static int by_sequence(const void *left, const void *right) {
    const tx_item *const a = *(const tx_item *const *)left, *const b = *(const tx_item *const *)right;
    return a->sequence < b->sequence ? -1 : 1;
}

jfs_status jfs_state_transactions(const jfs_state *state, jfs_tx_info *out, uint32_t capacity, uint32_t *count) {
    const tx_item **ordered;
    uint32_t found = 0;
    if (state->open_txs > capacity || state->open_txs == 0) return listed(state->open_txs, capacity, count);
    ordered = malloc(state->open_txs * sizeof(*ordered));
    if (ordered == NULL) return JFS_NO_MEMORY;
    for (uint32_t i = 0; i < state->txs.count; i++) {
        if (state->txs.items[i].used) ordered[found++] = &state->txs.items[i];
    }
    qsort(ordered, found, sizeof(*ordered), by_sequence);
    for (uint32_t i = 0; i < found; i++) {
        out[i] = (jfs_tx_info){.tx_id = ordered[i]->tx_id,
                               .file_slot = ordered[i]->file_slot,
                               .extra_offset = ordered[i]->extra_offset,
                               .extra_bytes = ordered[i]->extra_bytes,
                               .operations = ordered[i]->operations,
                               .flags = ordered[i]->flags};
    }
    free(ordered);
    return listed(found, capacity, count);
}

jfs_status jfs_state_operations(const jfs_state *state, int64_t tx_id, jfs_operation *out, uint32_t capacity,
                                uint32_t *count) {
    const uint32_t tx = tx_find(state, tx_id);
    uint32_t found = 0;
    *count = 0;
    if (tx == JFS_NONE) return JFS_OK;
    for (uint32_t op = state->txs.items[tx].first_op; op != JFS_NONE; op = state->ops.items[op].next) {
        if (found < capacity) out[found] = state->ops.items[op].op;
        found++;
    }
    return listed(found, capacity, count);
}
