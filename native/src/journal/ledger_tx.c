/* The ledger's transactions: their records count when they are committed, in the files where they lie. */
#include <stdlib.h>
#include <string.h>

#include "ledger_internal.h"

/* Operations from which on the end of a transaction is settled bit by bit. */
enum { LONG = 4096 };

tx_entry *ledger_find_tx(const jfs_ledger *ledger, int64_t tx_id) {
    const uint32_t item = index_find(&ledger->tx_index, ledger->txs, sizeof *ledger->txs, tx_id);
    return item == INDEX_NONE ? NULL : &ledger->txs[item];
}

static void tx_release(tx_entry *tx) {
    JFS_ASSERT(tx->used);
    free(tx->operations);
    free(tx->touched);
    memset(tx, 0, sizeof *tx);
}

void ledger_tx_free_all(jfs_ledger *ledger) {
    for (uint32_t i = 0; i < ledger->tx_count; i++) {
        if (ledger->txs[i].used) tx_release(&ledger->txs[i]);
    }
    free(ledger->txs);
    free(ledger->doubtful);
}

static jfs_status tx_get(jfs_ledger *ledger, int64_t tx_id, tx_entry **out) {
    uint32_t item = 0;
    jfs_status status;
    *out = ledger_find_tx(ledger, tx_id);
    if (*out != NULL) return JFS_OK;
    while (item < ledger->tx_count && ledger->txs[item].used) item++;
    if (item == ledger->tx_count) {
        status = ledger_grow((void **)&ledger->txs, ledger->tx_count, &ledger->tx_room, sizeof *ledger->txs);
        if (status != JFS_OK) return status;
        memset(&ledger->txs[item], 0, sizeof *ledger->txs);
    }
    ledger->txs[item].id = tx_id;
    status = index_add(&ledger->tx_index, ledger->txs, sizeof *ledger->txs, item);
    if (status != JFS_OK) return status;
    if (item == ledger->tx_count) ledger->tx_count++;
    *out = &ledger->txs[item];
    (*out)->used = 1;
    (*out)->counted_file = NONE;
    (*out)->sequence = ++ledger->tx_sequence;
    return JFS_OK;
}

/* A file is kept by each transaction that wrote into it, until a later file says how the transaction ended. */
static jfs_status tx_touch(jfs_ledger *ledger, tx_entry *tx, uint32_t slot) {
    JFS_ASSERT(slot < ledger->file_count);
    jfs_status status;
    for (uint32_t i = tx->touched_count; i-- > 0;) {
        if (tx->touched[i] == slot) return JFS_OK;
    }
    status = ledger_grow((void **)&tx->touched, tx->touched_count, &tx->touched_room, sizeof *tx->touched);
    if (status != JFS_OK) return status;
    tx->touched[tx->touched_count++] = slot;
    ledger->files[slot].counters.positives++;
    return JFS_OK;
}

static uint32_t tx_counted(const tx_entry *tx, uint32_t slot) { return tx->counted_file == slot ? tx->counted : 0; }

uint32_t jfs_ledger_count(const jfs_ledger *ledger, int64_t tx_id, uint32_t slot) {
    const tx_entry *const tx = ledger_find_tx(ledger, tx_id);
    return tx == NULL ? 0 : tx_counted(tx, slot);
}

static uint32_t updates_of(const tx_entry *tx, int64_t id) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < tx->operation_count; i++) found += tx->operations[i].holds && tx->operations[i].id == id;
    return found;
}

jfs_status ledger_tx_check(jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id) {
    const tx_entry *const tx = ledger_find_tx(ledger, tx_id);
    const live_entry *const entry = kind < JFS_PREPARE ? ledger_find(ledger, record_id) : NULL;
    if (kind >= JFS_PREPARE) {
        if (tx == NULL) return JFS_ABSENT;
        return kind == JFS_PREPARE && tx->prepared ? JFS_EXISTS : JFS_OK;
    }
    if (tx != NULL && tx->prepared) return JFS_HELD;
    if (kind == JFS_ADD_TX) return entry == NULL ? JFS_OK : JFS_EXISTS;
    if (entry == NULL) return JFS_ABSENT;
    if ((entry->flags & LIVE_PENDING) && (tx == NULL || &ledger->txs[entry->held] != tx)) return JFS_ABSENT;
    if (entry->flags & LIVE_DOOMED) return JFS_HELD;
    if (kind == JFS_UPDATE_TX || (entry->flags & LIVE_PENDING) || entry->held == 0) return JFS_OK;
    return tx != NULL && updates_of(tx, record_id) == entry->held ? JFS_OK : JFS_HELD;
}

/* Marks what the transaction claims, so that nothing else changes it meanwhile. */
static jfs_status tx_claim(jfs_ledger *ledger, uint32_t slot, tx_entry *tx, const jfs_record *record,
                           tx_operation *operation) {
    live_entry *entry = ledger_find(ledger, record->record_id);
    jfs_status status;
    operation->entry = entry == NULL ? NONE : (uint32_t)(entry - ledger->live);
    if (record->kind == JFS_ADD_TX) {
        if (entry != NULL) return JFS_OK; /* an id used twice: settled when it is committed */
        status = ledger_add(ledger, slot, record->record_id, record->length, &entry);
        if (status != JFS_OK) return status;
        entry->flags = LIVE_PENDING;
        entry->held = (uint32_t)(tx - ledger->txs);
        operation->entry = (uint32_t)(entry - ledger->live);
        return JFS_OK;
    }
    if (entry == NULL) return JFS_OK;
    tx->claims |= !(entry->flags & LIVE_PENDING) || record->kind == JFS_DELETE_TX;
    if (record->kind == JFS_DELETE_TX) {
        entry->flags |= LIVE_DOOMED;
    } else if (!(entry->flags & LIVE_PENDING)) {
        entry->held++;
        operation->holds = 1;
    }
    return JFS_OK;
}

/* What stays of a file if the transaction is committed. */
static int64_t may_live(const tx_operation *operation) {
    return operation->kind == JFS_DELETE_TX ? 0 : operation->bytes;
}

static jfs_status tx_operate(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    JFS_ASSERT(slot < ledger->file_count);
    JFS_ASSERT(record->kind >= JFS_ADD_TX && record->kind <= JFS_DELETE_TX);
    tx_entry *tx;
    tx_operation operation = {record->record_id, slot, record->length, record->kind, record->user_type, 0, NONE};
    jfs_status status = tx_get(ledger, record->tx_id, &tx);
    if (status == JFS_OK) status = tx_touch(ledger, tx, slot);
    if (status == JFS_OK) {
        status = ledger_grow((void **)&tx->operations, tx->operation_count, &tx->operation_room,
                             sizeof *tx->operations);
    }
    if (status == JFS_OK) status = tx_claim(ledger, slot, tx, record, &operation);
    if (status != JFS_OK) return status;
    tx->operations[tx->operation_count++] = operation;
    ledger->files[slot].counters.open_bytes += may_live(&operation);
    tx->counted = tx_counted(tx, slot) + 1;
    tx->counted_file = slot;
    return JFS_OK;
}

static jfs_status tx_prepare(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    JFS_ASSERT(slot < ledger->file_count);
    tx_entry *tx;
    jfs_status status = tx_get(ledger, record->tx_id, &tx);
    if (status != JFS_OK) return status;
    tx->prepared = 1;
    tx->broken = tx_counted(tx, slot) != (uint32_t)record->count;
    return tx->broken ? JFS_OK : tx_touch(ledger, tx, slot);
}

/* Looking up each record of a long transaction once more would hold its end up. */
static live_entry *entry_of(const jfs_ledger *ledger, const tx_operation *operation) {
    live_entry *const entry = operation->entry < ledger->live_count ? &ledger->live[operation->entry] : NULL;
    const int is_it = entry != NULL && entry->used && entry->id == operation->id;
    if (is_it && !(entry->flags & LIVE_LEFTOVER)) return entry;
    return ledger_find_now(ledger, operation->id);
}

/* Takes claims back; committed: what the operation does takes effect. */
static jfs_status settle(jfs_ledger *ledger, tx_entry *tx, const tx_operation *operation, int committed) {
    live_entry *entry = entry_of(ledger, operation);
    const int own = entry != NULL && (entry->flags & LIVE_PENDING) && &ledger->txs[entry->held] == tx;
    if (operation->kind == JFS_ADD_TX && committed && entry == NULL) {
        const jfs_status status = ledger_add(ledger, operation->file, operation->id, operation->bytes, &entry);
        return status == JFS_OK ? ledger_settle_add(ledger, entry) : status;
    }
    if (entry == NULL && !committed) return JFS_OK;
    if (entry == NULL && operation->kind == JFS_DELETE_TX) {
        return ledger_delete_leftover(ledger, operation->file, operation->id);
    }
    if (entry == NULL) return ledger_update_leftover(ledger, operation->file, operation->id);
    if (operation->kind == JFS_ADD_TX) {
        const uint8_t doomed = entry->flags & LIVE_DOOMED;
        if (!own) return JFS_OK;
        if (!committed) {
            ledger_forget(ledger, entry);
            return JFS_OK;
        }
        ledger_settle_add(ledger, entry);
        entry->flags = doomed;
        return JFS_OK;
    }
    if (operation->holds && entry->held > 0 && !(entry->flags & LIVE_PENDING)) entry->held--;
    if (operation->kind == JFS_DELETE_TX) entry->flags &= (uint8_t)~LIVE_DOOMED;
    if (!committed || (entry->flags & LIVE_PENDING)) return JFS_OK;
    if (operation->kind == JFS_DELETE_TX) return ledger_delete(ledger, operation->file, entry);
    return ledger_update(ledger, operation->file, entry, operation->bytes, operation->user_type, 0);
}

/* What the next of its operations do takes effect, or is taken back. */
static jfs_status settle_some(jfs_ledger *ledger, tx_entry *tx, uint32_t operations) {
    JFS_ASSERT(tx->used);
    JFS_ASSERT(tx->settled <= tx->operation_count);
    jfs_status status = JFS_OK;
    for (; tx->settled < tx->operation_count && operations > 0 && status == JFS_OK; operations--) {
        const tx_operation *const operation = &tx->operations[tx->settled++];
        ledger->files[operation->file].counters.open_bytes -= may_live(operation);
        status = settle(ledger, tx, operation, tx->committed);
    }
    if (status != JFS_OK) ledger->failed = 1;
    return status;
}

/* Gives back the memory of operations that are settled, of which it takes the kernel long to take much at once. */
static void settled_shrink(tx_entry *tx, uint32_t operations) {
    const uint32_t less = operations < UINT32_MAX / 16 ? operations * 16 : UINT32_MAX;
    tx_operation *kept;
    tx->operation_room = tx->operation_room > less ? tx->operation_room - less : 0;
    if (tx->operation_room == 0) return;
    kept = realloc(tx->operations, (size_t)tx->operation_room * sizeof *kept);
    if (kept != NULL) tx->operations = kept;
}

jfs_status jfs_ledger_settle(jfs_ledger *ledger, uint32_t operations) {
    tx_entry *const tx = ledger->first_ended == NONE ? NULL : &ledger->txs[ledger->first_ended];
    jfs_status status;
    if (tx == NULL) return JFS_OK;
    if (tx->settled == tx->operation_count) {
        settled_shrink(tx, operations);
        if (tx->operation_room > 0) return JFS_FULL;
        ledger->first_ended = tx->next_ended;
        if (ledger->first_ended == NONE) ledger->last_ended = NONE;
        ledger->ended_claims -= tx->claims;
        tx_release(tx);
        return ledger->first_ended == NONE ? JFS_OK : JFS_FULL;
    }
    status = settle_some(ledger, tx, operations);
    return status == JFS_OK ? JFS_FULL : status;
}

void ledger_settle_all(jfs_ledger *ledger) {
    while (!ledger->failed && jfs_ledger_settle(ledger, UINT32_MAX) == JFS_FULL) continue;
}

/* Whether a transaction that has ended may still have to change it. */
static int is_behind(const jfs_ledger *ledger, const live_entry *entry) {
    if (entry->flags & LIVE_PENDING) return ledger->txs[entry->held].ended;
    return ledger->ended_claims > 0 && ((entry->flags & LIVE_DOOMED) || entry->held > 0);
}

live_entry *ledger_find(jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = ledger_find_now(ledger, id);
    if (ledger->first_ended == NONE || entry == NULL || !is_behind(ledger, entry)) return entry;
    ledger_settle_all(ledger);
    return ledger_find_now(ledger, id);
}

/* Whether it changes what is not there: updates of that may be among what is still to be settled. */
static int changes_absent(const tx_entry *tx) {
    for (uint32_t i = 0; i < tx->operation_count; i++) {
        if (tx->operations[i].entry == NONE && tx->operations[i].kind != JFS_ADD_TX) return 1;
    }
    return 0;
}

/* It is open no more, and what its operations do is settled. */
static jfs_status tx_settle(jfs_ledger *ledger, tx_entry *tx, int committed) {
    JFS_ASSERT(tx->used);
    JFS_ASSERT(!tx->ended);
    const uint32_t number = (uint32_t)(tx - ledger->txs);
    jfs_status status;
    index_remove(&ledger->tx_index, ledger->txs, sizeof *ledger->txs, tx->id);
    tx->committed = (uint8_t)committed;
    tx->next_ended = NONE;
    if (tx->operation_count > LONG) {
        tx->ended = 1;
        ledger->ended_claims += tx->claims;
        if (ledger->last_ended == NONE) {
            ledger->first_ended = number;
        } else {
            ledger->txs[ledger->last_ended].next_ended = number;
        }
        ledger->last_ended = number;
        return JFS_OK;
    }
    if (ledger->first_ended != NONE && changes_absent(tx)) ledger_settle_all(ledger);
    status = settle_some(ledger, tx, UINT32_MAX);
    tx_release(tx);
    return status;
}

void ledger_tx_needs(const jfs_ledger *ledger, int64_t tx_id, uint64_t *cancelled, uint64_t *groups) {
    const tx_entry *const tx = ledger_find_tx(ledger, tx_id);
    if (tx == NULL) return;
    *cancelled += tx->touched_count;
    if (tx->operation_count > LONG) return; /* counted bit by bit afterwards */
    *groups += tx->operation_count;
    for (uint32_t i = 0; i < tx->operation_count; i++) {
        const live_entry *const entry =
            tx->operations[i].kind == JFS_DELETE_TX ? ledger_find_now(ledger, tx->operations[i].id) : NULL;
        if (entry != NULL) *cancelled += ledger_cancelled_by(ledger, entry);
    }
}

static jfs_status keep_for_good(jfs_ledger *ledger, int64_t tx_id) {
    const jfs_status status = ledger_grow((void **)&ledger->doubtful, ledger->doubtful_count, &ledger->doubtful_room,
                                          sizeof *ledger->doubtful);
    if (status == JFS_OK) ledger->doubtful[ledger->doubtful_count++] = tx_id;
    return status;
}

static jfs_status tx_end(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    JFS_ASSERT(slot < ledger->file_count);
    JFS_ASSERT(record->kind == JFS_COMMIT || record->kind == JFS_ROLLBACK);
    tx_entry *const tx = ledger_find_tx(ledger, record->tx_id);
    jfs_status status = JFS_OK;
    int committed;
    int incomplete;
    if (tx == NULL) return JFS_OK; /* its records were in files that are free by now */
    committed = record->kind == JFS_COMMIT && !tx->broken && tx_counted(tx, slot) == (uint32_t)record->count;
    incomplete = record->kind == JFS_COMMIT && !committed;
    if (incomplete) {
        /* Records that it counts were written, and are lost. */
        ledger->doubts = 1;
        status = keep_for_good(ledger, record->tx_id);
    }
    for (uint32_t i = 0; i < tx->touched_count && status == JFS_OK; i++) {
        if (!incomplete) status = ledger_negative(ledger, slot, tx->touched[i], 1);
    }
    return status == JFS_OK ? tx_settle(ledger, tx, committed) : status;
}

void jfs_ledger_doubt(jfs_ledger *ledger) { ledger->doubts = 1; }

int jfs_ledger_doubts(const jfs_ledger *ledger) { return ledger->doubts; }

jfs_status jfs_ledger_abandon(jfs_ledger *ledger, int64_t tx_id) {
    tx_entry *const tx = ledger_find_tx(ledger, tx_id);
    jfs_status status;
    if (tx == NULL) return JFS_ABSENT;
    status = keep_for_good(ledger, tx_id);
    return status == JFS_OK ? tx_settle(ledger, tx, 0) : status;
}

jfs_status jfs_ledger_doubtful(const jfs_ledger *ledger, int64_t *out, uint64_t room, uint64_t *count) {
    *count = ledger->doubtful_count;
    if (*count > room) return JFS_FULL;
    if (*count) memcpy(out, ledger->doubtful, *count * sizeof *out);
    return JFS_OK;
}

jfs_status ledger_tx_record(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    if (record->kind < JFS_PREPARE) return tx_operate(ledger, slot, record);
    if (record->kind == JFS_PREPARE) return tx_prepare(ledger, slot, record);
    return tx_end(ledger, slot, record);
}

jfs_status jfs_ledger_transactions(const jfs_ledger *ledger, jfs_ledger_tx *out, uint64_t room, uint64_t *count) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < ledger->tx_count; i++) {
        const tx_entry *const tx = &ledger->txs[i];
        if (!tx->used || tx->ended) continue;
        if (at < room) {
            out[at] = (jfs_ledger_tx){tx->id,           tx->operation_count, tx->counted,
                                      tx->counted_file, tx->prepared,        tx->broken};
        }
        at++;
    }
    *count = at;
    return at <= room ? JFS_OK : JFS_FULL;
}
