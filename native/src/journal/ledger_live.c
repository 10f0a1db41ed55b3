/* The ledger's live records: what one add, update or delete counts for in the files. Transactions are not known here. */
#include <stdlib.h>
#include <string.h>

#include "ledger_internal.h"
#include "user_types.h"

enum { ITEMS_FIRST = 64, ITEMS_LONG = 65536 };

jfs_status ledger_grow(void **items, uint32_t count, uint32_t *room, size_t stride) {
    JFS_ASSERT(count <= *room);
    JFS_ASSERT(stride > 0);
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

live_entry *ledger_find_any(const jfs_ledger *ledger, int64_t id) {
    const uint32_t item = index_find(&ledger->live_index, ledger->live, sizeof *ledger->live, id);
    return item == INDEX_NONE ? NULL : &ledger->live[item];
}

live_entry *ledger_find_now(const jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = ledger_find_any(ledger, id);
    return entry == NULL || (entry->flags & LIVE_LEFTOVER) ? NULL : entry;
}

static live_entry *find_leftover(const jfs_ledger *ledger, int64_t id) {
    live_entry *const entry = ledger_find_any(ledger, id);
    return entry == NULL || !(entry->flags & LIVE_LEFTOVER) ? NULL : entry;
}

/* Few files are cancelled from one file, and mostly the same one again: searched from the newest. */
jfs_status ledger_negative(jfs_ledger *ledger, uint32_t in_slot, uint32_t of_slot, int64_t count) {
    JFS_ASSERT(in_slot < ledger->file_count);
    JFS_ASSERT(of_slot < ledger->file_count);
    file_entry *const file = &ledger->files[in_slot];
    jfs_status status;
    for (uint32_t n = file->negative_count; n-- > 0;) {
        if (file->negatives[n].file == of_slot) {
            file->negatives[n].count += count;
            return JFS_OK;
        }
    }
    status = ledger_grow((void **)&file->negatives, file->negative_count, &file->negative_room,
                         sizeof *file->negatives);
    if (status == JFS_OK) file->negatives[file->negative_count++] = (jfs_ledger_cancelled){of_slot, count};
    return status;
}

jfs_status ledger_settle_add(jfs_ledger *ledger, live_entry *entry) {
    JFS_ASSERT(entry->used);
    JFS_ASSERT(entry->add_file < ledger->file_count);
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
    JFS_ASSERT(entry->used);
    JFS_ASSERT(entry->last_count > 0);
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
    JFS_ASSERT(slot < ledger->file_count);
    JFS_ASSERT(entry->used);
    JFS_ASSERT(!(entry->flags & (LIVE_PENDING | LIVE_LEFTOVER)));
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
    if (user_type == TYPE_ADD_REFERENCE && entry->references < INT16_MAX) entry->references++;
    if (user_type == TYPE_ACKNOWLEDGE_REFERENCE && entry->references > INT16_MIN) entry->references--;
    entry->last_count++;
    entry->last_bytes += bytes;
    counters->positives++;
    counters->live_bytes += bytes;
    return JFS_OK;
}

void ledger_forget(jfs_ledger *ledger, live_entry *entry) {
    JFS_ASSERT(entry->used);
    JFS_ASSERT(entry >= ledger->live && entry < ledger->live + ledger->live_count);
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

jfs_status ledger_add(jfs_ledger *ledger, uint32_t slot, int64_t id, uint32_t bytes, live_entry **out) {
    JFS_ASSERT(slot < ledger->file_count);
    JFS_ASSERT(ledger_find_now(ledger, id) == NULL);
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

jfs_status ledger_update_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id) {
    JFS_ASSERT(slot < ledger->file_count);
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
    JFS_ASSERT(file < ledger->file_count);
    ledger->files[file].counters.positives += count;
    return ledger_negative(ledger, slot, file, count);
}

jfs_status ledger_delete_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id) {
    JFS_ASSERT(slot < ledger->file_count);
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
    JFS_ASSERT(file < ledger->file_count);
    JFS_ASSERT(ledger->files[file].counters.live_bytes >= bytes);
    ledger->files[file].counters.live_bytes -= bytes;
    return ledger_negative(ledger, slot, file, count);
}

jfs_status ledger_delete(jfs_ledger *ledger, uint32_t slot, live_entry *entry) {
    JFS_ASSERT(slot < ledger->file_count);
    JFS_ASSERT(entry->used);
    JFS_ASSERT(!(entry->flags & (LIVE_PENDING | LIVE_LEFTOVER)));
    JFS_ASSERT(ledger->live_records > 0);
    JFS_ASSERT(ledger->files[entry->add_file].counters.live_adds > 0);
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

uint32_t ledger_cancelled_by(const jfs_ledger *ledger, const live_entry *entry) {
    JFS_ASSERT(entry->used);
    uint32_t groups = 2; /* the record itself, and its newest updates */
    for (uint32_t at = entry->older; at != NONE; at = ledger->groups[at].next) groups++;
    return groups;
}
