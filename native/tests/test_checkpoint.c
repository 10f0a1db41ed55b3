/* A state saved and loaded is the same; bytes that were changed are refused or harmless. */
#include "live.h"

enum { Q = 21, R = 22 };

static live rich_state(journal *j) {
    uint8_t body[24];
    live l;
    uint32_t made;
    journal_open(j, 2, 1);
    for (int64_t id = 1; id <= 9; id++) sent(j, id, Q);
    for (int64_t q = 0; q < 40; q++) update(j, ADD_REF, 3, 100 + q, 0);
    update(j, DELIVERIES, 2, Q, 3);
    update(j, SCHEDULE, 7, Q, 9000);
    update_tx(j, 67, ACK, 1, Q);
    message_tx(j, 67, 30);
    put_prepare(j, 67, 2, "xid", 3);
    message_tx(j, 68, 31);
    put_add(j, JFS_ADD, 50, PAGE_TX, body, numbers(body, 301, 10, 4, 0, 0));
    put_add(j, JFS_ADD, 60, CURSOR_ACK, body, numbers(body, Q, 4, 8, 5, 4));
    update(j, ACK, 77, R, 0);
    l = live_of(j);
    CHECK_EQ(jfs_state_seal(l.state, slot_of(&l, Q), 1, &(jfs_seal_limits){UINT64_MAX, 3, 1, UINT32_MAX}, &made), JFS_OK);
    update(j, DELIVERIES, 2, Q, 4);
    put_delete(j, 5);
    sent(j, 10, Q);
    expiring(j, 12, Q, 500);
    expiring(j, 13, Q, 400);
    expiring(j, 14, Q, 300);
    put_delete(j, 14);
    live_apply(&l, 0, j);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    return l;
}

static uint8_t *saved(const live *l, uint64_t *size) {
    uint8_t *bytes;
    *size = jfs_state_save_bytes(l->state);
    bytes = malloc(*size);
    CHECK(bytes != NULL);
    CHECK_EQ(jfs_state_save(l->state, bytes, *size - 1), JFS_FULL);
    CHECK_EQ(jfs_state_save(l->state, bytes, *size), JFS_OK);
    return bytes;
}

static void check_same(const live *a, const live *b) {
    uint32_t refs_a[64], refs_b[64], count_a, count_b;
    jfs_queue_info queues_a[64], queues_b[64];
    CHECK_EQ(jfs_state_queues(a->state, queues_a, 64, &count_a), JFS_OK);
    CHECK_EQ(jfs_state_queues(b->state, queues_b, 64, &count_b), JFS_OK);
    CHECK_EQ(count_a, count_b);
    for (uint32_t slot = 0; slot < count_a; slot++)
        queues_a[slot].left = queues_b[slot].left = 0; // counted from when a state was made
    CHECK_EQ(memcmp(queues_a, queues_b, count_a * sizeof *queues_a), 0);
    for (uint32_t slot = 0, queues = count_a; slot < queues; slot++) {
        CHECK_EQ(jfs_state_refs(a->state, slot, JFS_ORDER_ARRIVAL, JFS_INCLUDE_ALL, refs_a, 64, &count_a), JFS_OK);
        CHECK_EQ(jfs_state_refs(b->state, slot, JFS_ORDER_ARRIVAL, JFS_INCLUDE_ALL, refs_b, 64, &count_b), JFS_OK);
        CHECK_EQ(count_a, count_b);
        for (uint32_t i = 0; i < count_a; i++) {
            jfs_ref_info info_a, info_b;
            CHECK_EQ(jfs_state_ref(a->state, refs_a[i], &info_a), JFS_OK);
            CHECK_EQ(jfs_state_ref(b->state, refs_b[i], &info_b), JFS_OK);
            info_a.message = info_b.message = 0;
            CHECK_EQ(memcmp(&info_a, &info_b, sizeof info_a), 0);
        }
    }
}

static void a_loaded_state_is_the_same_and_goes_on(void) {
    journal j;
    live l = rich_state(&j), again = l;
    uint64_t size, size_again;
    uint8_t *const bytes = saved(&l, &size);
    uint8_t *bytes_again;
    int64_t expired[4];
    uint32_t expired_count;
    CHECK_EQ(jfs_state_load(bytes, size, &again.state), JFS_OK);
    check_same(&l, &again);
    CHECK_EQ(jfs_state_expired(again.state, 450, expired, 4, &expired_count), JFS_OK);
    CHECK_EQ(expired_count, 1);
    CHECK_EQ(expired[0], 13);
    bytes_again = saved(&again, &size_again);
    CHECK_EQ(size_again, size);
    CHECK_EQ(memcmp(bytes, bytes_again, size), 0);
    put_rollback(&j, 67);
    update_tx(&j, 68, ADD_REF, 31, Q);
    put_commit(&j, 68, 2);
    update(&j, ACK, 3, 105, 0);
    sent(&j, 11, R);
    live_apply(&l, 0, &j);
    live_apply(&again, 0, &j);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(jfs_state_measure(again.state, again.files, again.file_count), JFS_OK);
    CHECK_LIVE(&again, Q, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 31, 0);
    check_same(&l, &again);
    free(bytes);
    free(bytes_again);
    live_free(&l);
    live_free(&again);
    journal_close(&j);
}

/* Everything that may be asked, of a state that came from changed bytes. */
static void ask_everything(live *l) {
    uint32_t refs[64], count, made;
    jfs_part_info parts[64];
    jfs_tx_info txs[8];
    jfs_operation operations[8];
    for (uint32_t slot = 0; slot < 64; slot++) {
        int64_t oldest;
        if (jfs_state_refs(l->state, slot, JFS_ORDER_DELIVERY, JFS_INCLUDE_ALL, refs, 64, &count) != JFS_OK) continue;
        for (uint32_t i = 0; i < count; i++) {
            jfs_ref_info info;
            CHECK_EQ(jfs_state_ref(l->state, refs[i], &info), JFS_OK);
        }
        jfs_state_oldest(l->state, slot, &oldest);
        jfs_state_seal(l->state, slot, 1, &(jfs_seal_limits){1000, 2, 1, UINT32_MAX}, &made);
        jfs_state_parts(l->state, slot, parts, 64, &count);
        for (uint32_t i = 0; i < count && i < 64; i++) {
            uint32_t of_part;
            jfs_state_part_refs(l->state, slot, parts[i].number, refs, 64, &of_part);
        }
    }
    if (jfs_state_transactions(l->state, txs, 8, &count) == JFS_OK) {
        for (uint32_t i = 0; i < count; i++) jfs_state_operations(l->state, txs[i].tx_id, operations, 8, &made);
    }
    jfs_state_side(l->state, JFS_ANY_TYPE, operations, 8, &count);
    jfs_state_expired(l->state, INT64_MAX, NULL, 0, &count);
}

static void changed_bytes_do_no_harm(void) {
    static const uint8_t flips[] = {1, 0x80, 0xff};
    journal j;
    live l = rich_state(&j);
    uint64_t size;
    uint32_t refused = 0;
    uint8_t *const bytes = saved(&l, &size);
    for (uint64_t at = 0; at < size; at++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            live changed = l;
            jfs_status status;
            bytes[at] ^= flips[k];
            status = jfs_state_load(bytes, size, &changed.state);
            bytes[at] ^= flips[k];
            if (status == JFS_OK) {
                ask_everything(&changed);
                changed.applied[0] = 16; /* every record once more */
                live_apply(&changed, 0, &j);
                ask_everything(&changed);
                live_free(&changed);
            } else {
                CHECK(status == JFS_MALFORMED || status == JFS_NO_MEMORY);
                CHECK(changed.state == NULL);
                refused++;
            }
        }
    }
    CHECK(refused > 0);
    free(bytes);
    live_free(&l);
    journal_close(&j);
}

static void cut_bytes_are_refused(void) {
    journal j;
    live l = rich_state(&j);
    uint64_t size;
    uint8_t *const bytes = saved(&l, &size);
    jfs_state *state;
    for (uint64_t cut = 0; cut < size; cut++) {
        uint8_t *const shorter = malloc(cut + 1); /* of its own, so that reading behind it is seen */
        memcpy(shorter, bytes, cut);
        CHECK_EQ(jfs_state_load(shorter, cut, &state), JFS_MALFORMED);
        free(shorter);
    }
    free(bytes);
    live_free(&l);
    journal_close(&j);
}

static void an_unfinished_state_is_not_saved(void) {
    uint8_t bytes[4096];
    live l = live_new();
    CHECK_EQ(jfs_state_save(l.state, bytes, sizeof bytes), JFS_RANGE);
    live_free(&l);
}

int main(void) {
    RUN(a_loaded_state_is_the_same_and_goes_on);
    RUN(changed_bytes_do_no_harm);
    RUN(cut_bytes_are_refused);
    RUN(an_unfinished_state_is_not_saved);
    return 0;
}
