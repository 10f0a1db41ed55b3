/* The ledger's files: what each cancels in others, and which nothing needs any more. */
#include <stdlib.h>
#include <string.h>

#include "ledger_internal.h"

jfs_status jfs_ledger_add_file(jfs_ledger *ledger, uint32_t *slot) {
    const jfs_status status =
        ledger_grow((void **)&ledger->files, ledger->file_count, &ledger->file_room, sizeof *ledger->files);
    if (status != JFS_OK) return status;
    memset(&ledger->files[ledger->file_count], 0, sizeof *ledger->files);
    *slot = ledger->file_count++;
    return JFS_OK;
}

void jfs_ledger_drop_file(jfs_ledger *ledger, uint32_t slot) {
    for (uint32_t i = 0; i < ledger->file_count; i++) {
        file_entry *const file = &ledger->files[i];
        for (uint32_t n = 0; n < file->negative_count; n++) {
            if (file->negatives[n].file != slot) continue;
            file->negatives[n] = file->negatives[--file->negative_count];
            break;
        }
    }
    if (slot < ledger->file_count) {
        free(ledger->files[slot].negatives);
        memset(&ledger->files[slot], 0, sizeof ledger->files[slot]);
    }
}

jfs_status jfs_ledger_cancels(jfs_ledger *ledger, uint32_t in_slot, jfs_ledger_cancelled *out, uint32_t room,
                              uint32_t *count) {
    const file_entry *file;
    if (in_slot >= ledger->file_count) return JFS_RANGE;
    ledger_settle_all(ledger);
    file = &ledger->files[in_slot];
    *count = file->negative_count;
    if (room < *count) return JFS_FULL;
    if (*count > 0) memcpy(out, file->negatives, *count * sizeof *out);
    return JFS_OK;
}

/* Where the files stand among those that are asked about. */
typedef struct {
    uint32_t *place;    /* by slot; UINT32_MAX: not asked about */
    int64_t *cancelled; /* by place: how much of a file's is cancelled from it or later */
} reckoning;

static jfs_status reckoning_make(reckoning *made, const jfs_ledger *ledger, const uint32_t *slots, uint32_t count) {
    made->place = malloc(((size_t)ledger->file_count + 1) * sizeof *made->place);
    made->cancelled = calloc((size_t)count + 1, sizeof *made->cancelled);
    if (made->place == NULL || made->cancelled == NULL) return JFS_NO_MEMORY;
    memset(made->place, 0xff, ledger->file_count * sizeof *made->place);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i] >= ledger->file_count) return JFS_RANGE;
        made->place[slots[i]] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        const file_entry *const file = &ledger->files[slots[i]];
        for (uint32_t n = 0; n < file->negative_count; n++) {
            const uint32_t place = made->place[file->negatives[n].file];
            if (place <= i) made->cancelled[place] += file->negatives[n].count;
        }
    }
    return JFS_OK;
}

/* Whether a file cancels something in an earlier one that stays. */
static int is_needed(const reckoning *made, const file_entry *file, uint32_t place, const uint8_t *reclaimable) {
    JFS_ASSERT(place != UINT32_MAX);
    for (uint32_t n = 0; n < file->negative_count; n++) {
        const uint32_t earlier = made->place[file->negatives[n].file];
        if (earlier < place && !reclaimable[earlier] && file->negatives[n].count != 0) return 1;
    }
    return 0;
}

/* A file goes when nothing earlier that stays is cancelled by it, and all it holds is cancelled from it or later. */
jfs_status jfs_ledger_reclaimable(jfs_ledger *ledger, const uint32_t *slots, uint32_t count,
                                  uint8_t *reclaimable) {
    reckoning made;
    jfs_status status;
    ledger_settle_all(ledger);
    memset(reclaimable, 0, count);
    if (ledger->failed) return JFS_NO_MEMORY; /* else the file of a live record might be set free */
    status = reckoning_make(&made, ledger, slots, count);
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        const file_entry *const file = &ledger->files[slots[i]];
        if (is_needed(&made, file, i, reclaimable)) continue;
        reclaimable[i] = made.cancelled[i] >= file->counters.positives;
    }
    free(made.place);
    free(made.cancelled);
    return status;
}

jfs_status jfs_ledger_sum(jfs_ledger *ledger, const uint32_t *slots, uint32_t count, jfs_ledger_file *out) {
    ledger_settle_all(ledger);
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i] >= ledger->file_count) return JFS_RANGE;
        const jfs_ledger_file *const one = &ledger->files[slots[i]].counters;
        out->live_bytes += one->live_bytes;
        out->positives += one->positives;
        out->adds += one->adds;
        out->replaceable += one->replaceable;
        out->live_adds += one->live_adds;
        out->open_bytes += one->open_bytes;
    }
    return JFS_OK;
}

void jfs_ledger_totals(const jfs_ledger *ledger, jfs_ledger_counts *out) {
    uint64_t memory = sizeof *ledger + ledger->live_room * sizeof *ledger->live +
                      ledger->group_room * sizeof *ledger->groups + ledger->tx_room * sizeof *ledger->txs +
                      ledger->file_room * sizeof *ledger->files + index_bytes(&ledger->live_index) +
                      index_bytes(&ledger->tx_index);
    for (uint32_t i = 0; i < ledger->file_count; i++) {
        memory += ledger->files[i].negative_room * sizeof *ledger->files[i].negatives;
    }
    out->live_records = ledger->live_records;
    out->open_transactions = ledger->tx_index.count;
    out->doubtful_transactions = ledger->doubtful_count;
    out->memory_bytes = memory;
    out->id_max = ledger->id_max;
    out->tx_id_max = ledger->tx_id_max;
}

jfs_status jfs_ledger_live_ids(jfs_ledger *ledger, int64_t *out, uint64_t room, uint64_t *count) {
    uint64_t at = 0;
    ledger_settle_all(ledger);
    if (ledger->failed) return JFS_NO_MEMORY;
    for (uint32_t i = 0; i < ledger->live_count; i++) {
        const live_entry *const entry = &ledger->live[i];
        if (!entry->used || (entry->flags & (LIVE_PENDING | LIVE_LEFTOVER))) continue;
        if (at < room) out[at] = entry->id;
        at++;
    }
    *count = at;
    return at <= room ? JFS_OK : JFS_FULL;
}
