/* Fuzz target: replaying the records of several journal files, and everything that is asked of the result.
 *
 * Input: files, each behind its length (u32, big-endian). The length's top bit ends the initial load before that file,
 * so that what follows is applied as the records of a running broker are.
 */
#include "fuzz.h"
#include "jfs_scan.h"
#include "jfs_state_batch.h"
#include "jfs_state_explain.h"

enum { FILES_MAX = 8, ASK_MAX = 64 };

static const uint32_t FINISH = 0x80000000U;

typedef struct {
    jfs_span spans[FILES_MAX];
    uint32_t count;
} files;

static void scan_file(const jfs_span *file, jfs_scan *scan) {
    jfs_scan_options options = {.start_offset = 16, .stop_offset = file->size_bytes, .version = 2};
    options.rid = (int32_t)(fuzz_u32(file->bytes + 12) & 0x7fffffffU);
    if (fuzz_u32(file->bytes) == 1) options.version = 1;
    FUZZ_CHECK(jfs_scan_journal(file->bytes, file->size_bytes, &options, scan) == JFS_OK);
}

static void apply_file(jfs_state *state, files *all, const uint8_t *data, size_t size) {
    jfs_scan scan;
    const uint32_t slot = all->count;
    if (size < 16) return;
    all->spans[slot].bytes = data;
    all->spans[slot].size_bytes = size;
    all->count++;
    scan_file(&all->spans[slot], &scan);
    FUZZ_CHECK(jfs_state_apply(state, slot, &all->spans[slot], scan.records, scan.count) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    jfs_scan_free(&scan);
}

static void ask_lines(const jfs_state *state, const files *all, const uint32_t *refs, uint32_t count) {
    const jfs_line_options options = {.prefix_bytes = 12, .now_ms = 1, .sealed = 0};
    uint64_t starts[ASK_MAX + 1];
    int64_t ids[ASK_MAX];
    uint64_t sizes[ASK_MAX];
    jfs_line lines[ASK_MAX];
    const jfs_listing listing = {.ids = ids, .sizes = sizes};
    FUZZ_CHECK(jfs_state_listing(state, refs, count, &listing) == JFS_OK);
    FUZZ_CHECK(jfs_state_line_starts(state, refs, count, &options, starts) == JFS_OK);
    for (uint32_t i = 0; i < count; i++) FUZZ_CHECK(starts[i] < starts[i + 1]);
    FUZZ_CHECK(jfs_state_fill_lines(state, refs, count, &options, all->spans, all->count, lines) == JFS_OK);
}

static void ask_queue(const jfs_state *state, const files *all, uint32_t slot, const jfs_queue_info *info) {
    uint32_t refs[ASK_MAX];
    uint32_t count = 0, live = 0;
    const jfs_status status =
        jfs_state_refs(state, slot, JFS_ORDER_DELIVERY, JFS_INCLUDE_ALL, refs, ASK_MAX, &count);
    FUZZ_CHECK(status == (count > ASK_MAX ? JFS_FULL : JFS_OK));
    FUZZ_CHECK(count == info->live_count + info->delivering_count);
    if (count > ASK_MAX) count = ASK_MAX;
    for (uint32_t i = 0; i < count; i++) {
        jfs_ref_info ref;
        uint32_t found;
        FUZZ_CHECK(jfs_state_ref(state, refs[i], &ref) == JFS_OK);
        FUZZ_CHECK(ref.queue == slot && ref.file_slot < all->count);
        FUZZ_CHECK((uint64_t)ref.body_offset + ref.body_bytes <= all->spans[ref.file_slot].size_bytes);
        FUZZ_CHECK(jfs_state_find(state, slot, ref.message_id, &found) == JFS_OK && found == refs[i]);
    }
    FUZZ_CHECK(jfs_state_refs(state, slot, JFS_ORDER_ARRIVAL, JFS_INCLUDE_LIVE, refs, ASK_MAX, &live) !=
               JFS_NO_MEMORY);
    FUZZ_CHECK(live == info->live_count);
    ask_lines(state, all, refs, live < ASK_MAX ? live : ASK_MAX);
}

static void ask_everything(jfs_state *state, const files *all) {
    const jfs_seal_limits limits = {.bytes_max = 1000, .messages_max = 3, .number_from = 1, .number_end = UINT32_MAX};
    jfs_queue_info queues[ASK_MAX];
    jfs_tx_info transactions[ASK_MAX];
    jfs_operation operations[ASK_MAX];
    jfs_anomaly anomalies[ASK_MAX];
    uint32_t count = 0, made = 0;
    (void)jfs_state_queues(state, queues, ASK_MAX, &count);
    for (uint32_t slot = 0; slot < count && slot < ASK_MAX; slot++) {
        jfs_queue_info now;
        uint32_t parts = 0, refs[ASK_MAX];
        ask_queue(state, all, slot, &queues[slot]);
        FUZZ_CHECK(jfs_state_seal(state, slot, 5, &limits, &made) == JFS_OK);
        (void)jfs_state_part_refs(state, slot, 1, refs, ASK_MAX, &parts);
        (void)jfs_state_tail_refs(state, slot, refs, ASK_MAX, &parts);
        (void)jfs_state_scheduled(state, slot, 0, refs, ASK_MAX, &parts);
        now = queues[slot];
        ask_queue(state, all, slot, &now);
    }
    (void)jfs_state_transactions(state, transactions, ASK_MAX, &count);
    for (uint32_t i = 0; i < count && i < ASK_MAX; i++) {
        uint32_t found = 0;
        (void)jfs_state_operations(state, transactions[i].tx_id, operations, ASK_MAX, &found);
        FUZZ_CHECK(found == transactions[i].operations);
    }
    (void)jfs_state_side(state, JFS_ANY_TYPE, operations, ASK_MAX, &count);
    uint8_t lost;
    (void)jfs_state_page_changes(state, operations, ASK_MAX, &count, &lost);
    (void)jfs_state_anomalies(state, anomalies, ASK_MAX, &count);
}

/* What keeps each file, and what expired, is what the lists of queues and transactions say. */
static void ask_files(jfs_state *state, const files *all) {
    jfs_queue_share shares[ASK_MAX];
    jfs_tx_share txs[ASK_MAX];
    uint32_t by_type[JFS_USER_TYPES], sides = 0, count, referenced;
    jfs_state_counts counts;
    uint8_t used[FILES_MAX] = {0};
    jfs_state_count(state, &counts);
    jfs_state_used_files(state, used, all->count);
    for (uint32_t slot = 0; slot < all->count; slot++) {
        uint32_t operations = 0;
        const jfs_status status = jfs_state_explain_queues(state, slot, shares, ASK_MAX, &count, &referenced);
        FUZZ_CHECK(status == (count > ASK_MAX ? JFS_FULL : JFS_OK) && referenced <= counts.messages);
        for (uint32_t i = 0; i < count && i < ASK_MAX; i++)
            FUZZ_CHECK(shares[i].delivering <= shares[i].messages && shares[i].messages <= referenced);
        jfs_state_explain_others(state, slot, by_type);
        for (uint32_t type = 0; type < JFS_USER_TYPES; type++) sides += by_type[type];
        (void)jfs_state_explain_txs(state, slot, txs, ASK_MAX, &count);
        for (uint32_t i = 0; i < count && i < ASK_MAX; i++) operations += txs[i].operations;
        if (referenced > 0 || operations > 0) FUZZ_CHECK(used[slot]);
    }
    FUZZ_CHECK(sides == counts.side_records);
}

static void ask_expired(jfs_state *state) {
    int64_t early[ASK_MAX], late[ASK_MAX];
    uint32_t some = 0, all = 0;
    (void)jfs_state_expired(state, 1000, early, ASK_MAX, &some);
    (void)jfs_state_expired(state, INT64_MAX, late, ASK_MAX, &all);
    FUZZ_CHECK(some <= all);
    for (uint32_t i = 0; i < some && all <= ASK_MAX; i++) {
        uint32_t at = 0;
        while (at < all && late[at] != early[i]) at++;
        FUZZ_CHECK(at < all);
    }
}

/* The same files read once more take the parts over: what is live in both is in the same part. */
static void adopt(jfs_state *old, const files *all) {
    jfs_queue_info queues[ASK_MAX];
    jfs_state *state = NULL;
    uint32_t count = 0;
    FUZZ_CHECK(jfs_state_new(&state) == JFS_OK);
    for (uint32_t slot = 0; slot < all->count; slot++) {
        jfs_scan scan;
        scan_file(&all->spans[slot], &scan);
        FUZZ_CHECK(jfs_state_apply(state, slot, &all->spans[slot], scan.records, scan.count) == JFS_OK);
        FUZZ_WHOLE(jfs_state_check(state));
        jfs_scan_free(&scan);
    }
    FUZZ_CHECK(jfs_state_finish(state, 0) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    FUZZ_CHECK(jfs_state_measure(state, all->spans, all->count) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    FUZZ_CHECK(jfs_state_adopt(state, old) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    (void)jfs_state_queues(state, queues, ASK_MAX, &count);
    for (uint32_t slot = 0; slot < count && slot < ASK_MAX; slot++) ask_queue(state, all, slot, &queues[slot]);
    jfs_state_free(state);
}

/* Some bytes of the first file cannot be read: its messages there are measured again. */
static void lose_bytes(jfs_state *state, const files *all) {
    const uint64_t size = all->count > 0 ? all->spans[0].size_bytes : 0;
    FUZZ_CHECK(jfs_state_unreadable(state, 0, size / 4, size / 2) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    FUZZ_CHECK(jfs_state_measure(state, all->spans, all->count) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
}

static void save_and_load(jfs_state *state) {
    const uint64_t size = jfs_state_save_bytes(state);
    uint8_t *saved = malloc(size), *again;
    jfs_state *loaded = NULL;
    FUZZ_CHECK(saved != NULL && jfs_state_save(state, saved, size) == JFS_OK);
    FUZZ_CHECK(jfs_state_load(saved, size, &loaded) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(loaded));
    FUZZ_CHECK(jfs_state_save_bytes(loaded) == size);
    again = malloc(size);
    FUZZ_CHECK(again != NULL && jfs_state_save(loaded, again, size) == JFS_OK);
    FUZZ_CHECK(memcmp(saved, again, size) == 0);
    jfs_state_free(loaded);
    free(again);
    free(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_state *state = NULL;
    files all = {.count = 0};
    int finished = 0;
    FUZZ_CHECK(jfs_state_new(&state) == JFS_OK);
    while (size >= 4 && all.count < FILES_MAX) {
        const uint32_t head = fuzz_u32(data);
        const size_t length = (head & ~FINISH) < size - 4 ? head & ~FINISH : size - 4;
        if ((head & FINISH) != 0 && !finished) {
            FUZZ_CHECK(jfs_state_finish(state, 1) == JFS_OK);
            FUZZ_WHOLE(jfs_state_check(state));
            finished = 1;
        }
        apply_file(state, &all, data + 4, length);
        data += 4 + length;
        size -= 4 + length;
    }
    if (!finished) FUZZ_CHECK(jfs_state_finish(state, 0) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    FUZZ_CHECK(jfs_state_measure(state, all.spans, all.count) == JFS_OK);
    FUZZ_WHOLE(jfs_state_check(state));
    ask_everything(state, &all);
    ask_files(state, &all);
    ask_expired(state);
    adopt(state, &all);
    save_and_load(state);
    lose_bytes(state, &all);
    ask_everything(state, &all);
    jfs_state_free(state);
    return 0;
}
