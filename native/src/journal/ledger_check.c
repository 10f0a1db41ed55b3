/* The whole of a ledger compared with itself. Tests and fuzzers call it after every step. It changes nothing, and takes
 * time for every item; a ledger that ran out of memory says nothing and is not looked at.
 */
#include <stdlib.h>

#include "jfs_assert.h"
#include "ledger_internal.h"

typedef struct {
    uint64_t adds, bytes;
} share;

/* What an entry keeps alive, added to the shares of its files; the length of its chain in `groups`. */
static const char *check_entry(const jfs_ledger *ledger, const live_entry *entry, share *shares, uint32_t *groups) {
    const int counts = !(entry->flags & (LIVE_PENDING | LIVE_LEFTOVER));
    JFS_HOLDS(entry->add_file < ledger->file_count);
    JFS_HOLDS(entry->last_count == 0 || entry->last_file < ledger->file_count);
    JFS_HOLDS(entry->last_count > 0 || entry->older == NONE);
    JFS_HOLDS(!(entry->flags & LIVE_PENDING) || entry->held < ledger->tx_count);
    if (counts) {
        shares[entry->add_file].adds++;
        shares[entry->add_file].bytes += entry->add_bytes;
        if (entry->last_count > 0) shares[entry->last_file].bytes += entry->last_bytes;
    }
    for (uint32_t at = entry->older; at != NONE; at = ledger->groups[at].next) {
        JFS_HOLDS(at < ledger->group_count && (*groups)++ < ledger->group_count);
        JFS_HOLDS(ledger->groups[at].file < ledger->file_count);
        if (counts) shares[ledger->groups[at].file].bytes += ledger->groups[at].bytes;
    }
    return NULL;
}

static const char *check_live(const jfs_ledger *ledger, share *shares) {
    uint32_t used = 0, groups = 0, free_ones = 0;
    uint64_t records = 0;
    for (uint32_t i = 0; i < ledger->live_count; i++) {
        const live_entry *const entry = &ledger->live[i];
        const char *wrong;
        if (!entry->used) continue;
        used++;
        records += !(entry->flags & (LIVE_PENDING | LIVE_LEFTOVER));
        wrong = check_entry(ledger, entry, shares, &groups);
        if (wrong != NULL) return wrong;
    }
    JFS_HOLDS(records == ledger->live_records);
    JFS_HOLDS(used == ledger->live_index.count);
    JFS_HOLDS(index_check(&ledger->live_index, ledger->live, sizeof *ledger->live, ledger->live_count));
    for (uint32_t at = ledger->live_free; at != NONE; at = ledger->live[at].older) {
        JFS_HOLDS(at < ledger->live_count && !ledger->live[at].used && free_ones++ < ledger->live_count);
    }
    JFS_HOLDS(used + free_ones == ledger->live_count);
    for (uint32_t at = ledger->group_free; at != NONE; at = ledger->groups[at].next) {
        JFS_HOLDS(at < ledger->group_count && groups++ < ledger->group_count);
    }
    JFS_HOLDS(groups == ledger->group_count);
    return NULL;
}

static const char *check_transactions(const jfs_ledger *ledger) {
    uint32_t open = 0, ended = 0, claims = 0, chained = 0, last = NONE;
    for (uint32_t i = 0; i < ledger->tx_count; i++) {
        const tx_entry *const tx = &ledger->txs[i];
        if (!tx->used) continue;
        open += !tx->ended;
        ended += tx->ended;
        JFS_HOLDS(tx->operation_count <= tx->operation_room || tx->settled == tx->operation_count);
        JFS_HOLDS(tx->settled <= tx->operation_count);
        JFS_HOLDS(tx->touched_count <= tx->touched_room);
    }
    JFS_HOLDS(open == ledger->tx_index.count);
    JFS_HOLDS(index_check(&ledger->tx_index, ledger->txs, sizeof *ledger->txs, ledger->tx_count));
    for (uint32_t at = ledger->first_ended; at != NONE; at = ledger->txs[at].next_ended) {
        JFS_HOLDS(at < ledger->tx_count && ledger->txs[at].ended && chained++ < ledger->tx_count);
        claims += ledger->txs[at].claims;
        last = at;
    }
    JFS_HOLDS(chained == ended);
    JFS_HOLDS(last == ledger->last_ended);
    JFS_HOLDS(claims == ledger->ended_claims);
    return NULL;
}

static const char *check_files(const jfs_ledger *ledger, const share *shares) {
    for (uint32_t slot = 0; slot < ledger->file_count; slot++) {
        const file_entry *const file = &ledger->files[slot];
        JFS_HOLDS(file->negative_count <= file->negative_room);
        for (uint32_t n = 0; n < file->negative_count; n++) JFS_HOLDS(file->negatives[n].file < ledger->file_count);
        /* More may be counted: an id that was added twice keeps both files, since nothing cancels the older. */
        JFS_HOLDS(ledger->first_ended != NONE || file->counters.live_adds >= shares[slot].adds);
        JFS_HOLDS(ledger->first_ended != NONE || file->counters.live_bytes >= (int64_t)shares[slot].bytes);
    }
    return NULL;
}

const char *jfs_ledger_check(const jfs_ledger *ledger) {
    share *shares;
    const char *wrong;
    if (ledger->failed) return NULL;
    shares = calloc((size_t)ledger->file_count + 1, sizeof *shares);
    if (shares == NULL) return NULL;
    wrong = check_live(ledger, shares);
    if (wrong == NULL) wrong = check_transactions(ledger);
    if (wrong == NULL) wrong = check_files(ledger, shares);
    free(shares);
    return wrong;
}
