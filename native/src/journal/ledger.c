/* The ledger's live records: what adds, updates and deletes outside of transactions do, and committed ones. */
#include "ledger_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS_FIRST = 64, ITEMS_LONG = 65536, SETTLED_WITH_EACH = 64 };
enum { TYPE_ADD_REF = 32, TYPE_ACKNOWLEDGE = 33, TYPE_DELIVERY_COUNT = 34, TYPE_SCHEDULED_TIME = 36 };

jfs_status ledger_grow(void **items, uint32_t count, uint32_t *room, size_t stride) {
    const uint32_t more = *room < ITEMS_LONG ? *room : *room / 16; /* as in the state */
    const uint64_t wanted = *room == 0 ? ITEMS_FIRST : (uint64_t)*room + more;
    void *grown;
    if (count < *room) return JFS_OK;
    if (wanted >= NONE) return JFS_NO_MEMORY;
    grown = realloc(*items, (size_t)wanted * stride);
    if (grown == NULL) return JFS_NO_MEMORY;
    *items = grown;
    *room = (uint32_t)wanted;
    return JFS_OK;
}

jfs_status ledger_room(void **items, uint32_t count, uint32_t *room, size_t stride, uint64_t more) {
    jfs_status status = JFS_OK;
    while (status == JFS_OK && count + more > *room) status = ledger_grow(items, *room, room, stride);
    return status;
}

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

static live_entry *find_any(const jfs_ledger *ledger, int64_t id) {
    const uint32_t item = index_find(&ledger->live_index, ledger->live, sizeof *ledger->live, id);
    return item == INDEX_NONE ? NULL : &ledger->live[item];
}

/* Whether a transaction that has ended may still have to change it. */
static int is_behind(const jfs_ledger *ledger, const live_entry *entry) {
    if (entry->flags & LIVE_PENDING) return ledger->txs[entry->held].ended;
    return ledger->ended_claims > 0 && ((entry->flags & LIVE_DOOMED) || entry->held > 0);
}

live_entry *ledger_find_now(const jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = find_any(ledger, id);
    return entry == NULL || (entry->flags & LIVE_LEFTOVER) ? NULL : entry;
}

live_entry *ledger_find(jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = ledger_find_now(ledger, id);
    if (ledger->first_ended == NONE || entry == NULL || !is_behind(ledger, entry)) return entry;
    ledger_settle_all(ledger);
    return ledger_find_now(ledger, id);
}

static live_entry *find_leftover(const jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = find_any(ledger, id);
    return entry == NULL || !(entry->flags & LIVE_LEFTOVER) ? NULL : entry;
}

int jfs_ledger_is_live(jfs_ledger *ledger, int64_t record_id) {
    const live_entry *const entry = ledger_find(ledger, record_id);
    return entry != NULL && !(entry->flags & LIVE_PENDING);
}

int jfs_ledger_references(jfs_ledger *ledger, int64_t record_id) {
    const live_entry *const entry = ledger_find(ledger, record_id);
    return entry == NULL ? 0 : entry->references;
}

jfs_status ledger_add(jfs_ledger *ledger, uint32_t slot, int64_t id, uint32_t bytes, live_entry **out) {
    live_entry *const leftover = find_leftover(ledger, id);
    uint32_t item;
    live_entry *entry;
    jfs_status status = JFS_OK;
    if (leftover != NULL) ledger_forget(ledger, leftover);
    item = ledger->live_free;
    if (item == NONE) {
        status = ledger_grow((void **)&ledger->live, ledger->live_count, &ledger->live_room, sizeof *ledger->live);
        if (status != JFS_OK) return status;
        item = ledger->live_count;
    }
    entry = &ledger->live[item];
    const uint32_t next_free = item == ledger->live_count ? NONE : entry->older;
    memset(entry, 0, sizeof *entry);
    *entry = (live_entry){.id = id, .add_file = slot, .add_bytes = bytes, .older = NONE, .used = 1};
    status = index_add(&ledger->live_index, ledger->live, sizeof *ledger->live, item);
    if (status != JFS_OK) return status;
    if (item == ledger->live_count) {
        ledger->live_count++;
    } else {
        ledger->live_free = next_free;
    }
    *out = entry;
    return JFS_OK;
}

jfs_status ledger_settle_add(jfs_ledger *ledger, live_entry *entry) {
    jfs_ledger_file *const counters = &ledger->files[entry->add_file].counters;
    entry->flags = 0;
    entry->held = 0;
    counters->positives++;
    counters->adds++;
    counters->live_adds++;
    counters->live_bytes += entry->add_bytes;
    ledger->live_records++;
    return JFS_OK;
}

/* Puts the newest group behind, to make room for one in another file. */
static jfs_status push_group(jfs_ledger *ledger, live_entry *entry) {
    uint32_t at = ledger->group_free;
    if (at == NONE) {
        const jfs_status status =
            ledger_grow((void **)&ledger->groups, ledger->group_count, &ledger->group_room, sizeof *ledger->groups);
        if (status != JFS_OK) return status;
        at = ledger->group_count++;
    } else {
        ledger->group_free = ledger->groups[at].next;
    }
    ledger->groups[at] = (update_group){entry->last_file, entry->last_count, entry->last_bytes, entry->older};
    entry->older = at;
    return JFS_OK;
}

jfs_status ledger_update(jfs_ledger *ledger, uint32_t slot, live_entry *entry, uint32_t bytes, int8_t user_type,
                         int replaces) {
    const int replaceable = user_type == TYPE_DELIVERY_COUNT || user_type == TYPE_SCHEDULED_TIME;
    jfs_ledger_file *const counters = &ledger->files[slot].counters;
    if (entry->last_count == 0 || entry->last_file != slot) {
        const jfs_status status = entry->last_count == 0 ? JFS_OK : push_group(ledger, entry);
        if (status != JFS_OK) return status;
        entry->last_file = slot;
        entry->last_count = 0;
        entry->last_bytes = 0;
        if (replaceable && replaces) counters->replaceable++;
    }
    if (user_type == TYPE_ADD_REF && entry->references < INT16_MAX) entry->references++;
    if (user_type == TYPE_ACKNOWLEDGE && entry->references > INT16_MIN) entry->references--;
    entry->last_count++;
    entry->last_bytes += bytes;
    counters->positives++;
    counters->live_bytes += bytes;
    return JFS_OK;
}

void ledger_forget(jfs_ledger *ledger, live_entry *entry) {
    uint32_t group = entry->older;
    while (group != NONE) {
        const uint32_t next = ledger->groups[group].next;
        ledger->groups[group].next = ledger->group_free;
        ledger->group_free = group;
        group = next;
    }
    index_remove(&ledger->live_index, ledger->live, sizeof *ledger->live, entry->id);
    entry->used = 0;
    entry->older = ledger->live_free;
    ledger->live_free = (uint32_t)(entry - ledger->live);
}

jfs_status ledger_update_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id) {
    live_entry *entry = find_leftover(ledger, id);
    jfs_status status = JFS_OK;
    if (entry == NULL) {
        status = ledger_add(ledger, slot, id, 0, &entry);
        if (status != JFS_OK) return status;
        entry->flags = LIVE_LEFTOVER;
    } else if (entry->last_file != slot) {
        status = push_group(ledger, entry);
        if (status != JFS_OK) return status;
        entry->last_count = 0;
    }
    entry->last_file = slot;
    entry->last_count++;
    return JFS_OK;
}

/* From now on these updates count, and are cancelled. */
static jfs_status cancel_leftovers(jfs_ledger *ledger, uint32_t slot, uint32_t file, uint32_t count) {
    ledger->files[file].counters.positives += count;
    return ledger_negative(ledger, slot, file, count);
}

jfs_status ledger_delete_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id) {
    live_entry *const entry = find_leftover(ledger, id);
    jfs_status status;
    if (entry == NULL) return JFS_OK;
    status = cancel_leftovers(ledger, slot, entry->last_file, entry->last_count);
    for (uint32_t at = entry->older; status == JFS_OK && at != NONE; at = ledger->groups[at].next) {
        const update_group group = ledger->groups[at];
        status = cancel_leftovers(ledger, slot, group.file, group.count);
    }
    ledger_forget(ledger, entry);
    return status;
}

static jfs_status cancel_group(jfs_ledger *ledger, uint32_t slot, uint32_t file, uint32_t count, uint32_t bytes) {
    ledger->files[file].counters.live_bytes -= bytes;
    return ledger_negative(ledger, slot, file, count);
}

jfs_status ledger_delete(jfs_ledger *ledger, uint32_t slot, live_entry *entry) {
    jfs_status status = cancel_group(ledger, slot, entry->add_file, 1, entry->add_bytes);
    ledger->files[entry->add_file].counters.live_adds--;
    if (status == JFS_OK && entry->last_count > 0) {
        status = cancel_group(ledger, slot, entry->last_file, entry->last_count, entry->last_bytes);
    }
    for (uint32_t at = entry->older; status == JFS_OK && at != NONE; at = ledger->groups[at].next) {
        const update_group group = ledger->groups[at];
        status = cancel_group(ledger, slot, group.file, group.count, group.bytes);
    }
    ledger->live_records--;
    ledger_forget(ledger, entry);
    return status;
}

jfs_status jfs_ledger_check(jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id) {
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

uint32_t ledger_cancelled_by(const jfs_ledger *ledger, const live_entry *entry) {
    uint32_t groups = 2; /* the record itself, and its newest updates */
    for (uint32_t at = entry->older; at != NONE; at = ledger->groups[at].next) groups++;
    return groups;
}

/* Get the memory that a record which cancels others needs, before anything is counted: half of a delete counted
 * would let the file of a live record be set free. All other records are counted as a whole or not at all as it is. */
static jfs_status room_for(jfs_ledger *ledger, uint32_t slot, const jfs_record *record) {
    const live_entry *entry;
    uint64_t cancelled = 0, groups = 0;
    if (record->kind == JFS_DELETE) {
        entry = find_any(ledger, record->record_id);
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
