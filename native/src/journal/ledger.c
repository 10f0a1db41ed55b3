/* The ledger as a whole: its life, and each record of a journal applied to it. */
#include "ledger_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SETTLED_WITH_EACH = 64 };

jfs_status jfs_ledger_new(jfs_ledger **out) {
    jfs_ledger *const ledger = calloc(1, sizeof *ledger);
    jfs_status status = JFS_NO_MEMORY;
    if (ledger == NULL) goto done;
    ledger->live_free = NONE;
    ledger->group_free = NONE;
    ledger->first_ended = ledger->last_ended = NONE;
    ledger->id_max = -1;
    ledger->tx_id_max = -1;
    status = index_init(&ledger->live_index);
    if (status == JFS_OK) status = index_init(&ledger->tx_index);
done:
    if (status == JFS_OK) {
        *out = ledger;
    } else {
        jfs_ledger_free(ledger);
    }
    return status;
}

void jfs_ledger_free(jfs_ledger *ledger) {
    if (ledger == NULL) return;
    ledger_tx_free_all(ledger);
    for (uint32_t i = 0; i < ledger->file_count; i++) free(ledger->files[i].negatives);
    free(ledger->files);
    free(ledger->groups);
    free(ledger->live);
    index_free(&ledger->live_index);
    index_free(&ledger->tx_index);
    free(ledger);
}

int jfs_ledger_is_live(jfs_ledger *ledger, int64_t record_id) {
    const live_entry *const entry = ledger_find(ledger, record_id);
    return entry != NULL && !(entry->flags & LIVE_PENDING);
}

int jfs_ledger_references(jfs_ledger *ledger, int64_t record_id) {
    const live_entry *const entry = ledger_find(ledger, record_id);
    return entry == NULL ? 0 : entry->references;
}

jfs_status jfs_ledger_allows(jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id) {
    const live_entry *entry;
    if (kind == JFS_EVENT) return JFS_OK;
    if (kind >= JFS_ADD_TX && kind != JFS_DELETE) return ledger_tx_check(ledger, kind, tx_id, record_id);
    entry = ledger_find(ledger, record_id);
    if (kind == JFS_ADD) return entry == NULL ? JFS_OK : JFS_EXISTS;
    if (entry == NULL || (entry->flags & LIVE_PENDING)) return JFS_ABSENT;
    if (entry->flags & LIVE_DOOMED) return JFS_HELD;
    return kind == JFS_DELETE && entry->held > 0 ? JFS_HELD : JFS_OK;
}

static jfs_status apply_plain(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    live_entry *entry = ledger_find(ledger, record->record_id);
    jfs_status status;
    if (record->kind == JFS_ADD) {
        /* A second add of an id: the newer one counts, and nothing ever cancels the older. */
        if (entry != NULL && !(entry->flags & LIVE_PENDING)) ledger->live_records--;
        if (entry != NULL) ledger_forget(ledger, entry);
        status = ledger_add(ledger, slot, record->record_id, record->length, &entry);
        return status == JFS_OK ? ledger_settle_add(ledger, entry) : status;
    }
    if (entry == NULL) ledger_settle_all(ledger); /* updates of it may be among what is still to be settled */
    if (entry == NULL && record->kind == JFS_DELETE) return ledger_delete_leftover(ledger, slot, record->record_id);
    if (entry == NULL) return ledger_update_leftover(ledger, slot, record->record_id);
    if (entry->flags & LIVE_PENDING) return JFS_OK;
    if (record->kind == JFS_DELETE) return ledger_delete(ledger, slot, entry);
    return ledger_update(ledger, slot, entry, record->length, record->user_type, 1);
}

/* Get the memory that a record which cancels others needs, before anything is counted: half of a delete counted
 * would let the file of a live record be set free. All other records are counted as a whole or not at all as it is. */
static jfs_status room_for(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    const live_entry *entry;
    uint64_t cancelled = 0, groups = 0;
    if (record->kind == JFS_DELETE) {
        entry = ledger_find_any(ledger, record->record_id);
        if (entry != NULL) cancelled = ledger_cancelled_by(ledger, entry);
    } else if (record->kind == JFS_COMMIT || record->kind == JFS_ROLLBACK) {
        ledger_tx_needs(ledger, record->tx_id, &cancelled, &groups);
    } else {
        return JFS_OK;
    }
    file_entry *const file = &ledger->files[slot];
    if (cancelled > ledger->file_count) cancelled = ledger->file_count;
    const jfs_status status = ledger_room((void **)&file->negatives, file->negative_count, &file->negative_room,
                                          sizeof *file->negatives, cancelled);
    if (status != JFS_OK || groups == 0) return status;
    return ledger_room((void **)&ledger->groups, ledger->group_count, &ledger->group_room, sizeof *ledger->groups, groups);
}

int jfs_ledger_failed(const jfs_ledger *ledger) { return ledger->failed; }

jfs_status jfs_ledger_apply(jfs_ledger *ledger, uint32_t slot, const jfs_record *records, uint32_t count) {
    jfs_status status = ledger->failed ? JFS_NO_MEMORY : JFS_OK;
    if (slot >= ledger->file_count) return JFS_RANGE;
    if (ledger->first_ended != NONE) jfs_ledger_settle(ledger, SETTLED_WITH_EACH);
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        const jfs_record *const record = &records[i];
        const int has_tx = record->kind >= JFS_ADD_TX && record->kind != JFS_DELETE;
        if (record->kind == JFS_EVENT) continue;
        status = room_for(ledger, slot, record);
        if (status != JFS_OK) return status; /* nothing of it was counted */
        if (has_tx && record->tx_id > ledger->tx_id_max) ledger->tx_id_max = record->tx_id;
        if (record->kind < JFS_PREPARE && record->record_id > ledger->id_max) ledger->id_max = record->record_id;
        status = has_tx ? ledger_tx_record(ledger, slot, record) : apply_plain(ledger, slot, record);
        /* An end that was counted in part can be neither repeated nor taken back. */
        if (status != JFS_OK && has_tx && record->kind >= JFS_PREPARE) ledger->failed = 1;
        if (status != JFS_OK && record->kind == JFS_DELETE) ledger->failed = 1;
    }
    return status;
}
