/* What records do to the live set: messages, references, order, deletes, damage of the story they tell. */
#include "live.h"

enum { Q = 21, R = 22 };

static void sends_acks_and_deletes(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 5; id++) sent(&j, id, Q);
    update(&j, ADD_REF, 3, R, 0);
    update(&j, ADD_REF, 1, Q, 0); /* again: keeps its place */
    update(&j, ACK, 2, Q, 0);
    put_delete(&j, 2);
    update(&j, ACK, 3, Q, 0);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 1, 4, 5, 0);
    CHECK_LIVE(&l, R, 3, 0);
    CHECK_EQ(queue_of(&l, Q).live_count, 3);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 30);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_ACK_WITHOUT_REF), 0);
    live_free(&l);
    journal_close(&j);
}

static void delivery_order_is_priority_then_arrival(void) {
    static const uint8_t priorities[] = {4, 9, 0, 9, 4, 7};
    journal j;
    live l;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 6; id++) message(&j, id, priorities[id - 1]);
    for (int64_t id = 6; id >= 1; id--) update(&j, ADD_REF, id, Q, 0);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 6, 5, 4, 3, 2, 1, 0);
    CHECK_QUEUE(&l, Q, JFS_ORDER_DELIVERY, JFS_INCLUDE_LIVE, 4, 2, 6, 5, 1, 3, 0);
    live_free(&l);
    journal_close(&j);
}

/* A delete removes every record of its id, wherever it stands. */
static void deletes_reach_backward_and_forward(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    put_delete(&j, 1);
    sent(&j, 1, Q);
    put_delete(&j, 2);
    sent(&j, 2, Q);
    put_delete(&j, 0);
    sent(&j, 3, Q);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 3, 0);
    live_free(&l);
    journal_close(&j);
}

static void what_comes_before_its_message_is_lost(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    update(&j, ADD_REF, 1, Q, 0);
    update(&j, ACK, 2, Q, 0);
    update(&j, DELIVERIES, 3, Q, 7);
    update(&j, ACK, 9, Q, 0); /* this one is deleted later: its beginning was reclaimed */
    for (int64_t id = 1; id <= 4; id++) message(&j, id, 4);
    for (int64_t id = 2; id <= 3; id++) update(&j, ADD_REF, id, Q, 0);
    update(&j, ACK, 4, Q, 0);
    put_delete(&j, 9);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 2, 3, 0);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_REF_OF_UNKNOWN), 1);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_ACK_OF_UNKNOWN), 1);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_UPDATE_OF_UNKNOWN), 1);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_ACK_WITHOUT_REF), 1);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_NO_REFERENCES), 2);
    live_free(&l);
    journal_close(&j);
}

static void counts_and_schedules_decorate(void) {
    journal j;
    live l;
    uint32_t ref, due[4], count;
    jfs_ref_info info;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 4; id++) sent(&j, id, Q);
    update(&j, DELIVERIES, 2, Q, 3);
    update(&j, DELIVERIES, 2, Q, 4);
    update(&j, SCHEDULE, 3, Q, 2000);
    update(&j, SCHEDULE, 1, Q, 3000);
    update(&j, SCHEDULE, 4, Q, 1000);
    update(&j, DELIVERIES, 4, Q, -9); /* no broker writes that */
    update(&j, SCHEDULE, 4, R, 9000); /* not in that queue */
    l = live_of(&j);
    CHECK_EQ(jfs_state_find(l.state, slot_of(&l, Q), 2, &ref), JFS_OK);
    CHECK_EQ(jfs_state_ref(l.state, ref, &info), JFS_OK);
    CHECK_EQ(info.delivery_count, 4);
    CHECK_EQ(info.scheduled_ms, 0);
    CHECK_EQ(info.timestamp_ms, 2);
    CHECK_EQ(jfs_state_find(l.state, slot_of(&l, Q), 4, &ref), JFS_OK);
    CHECK_EQ(jfs_state_ref(l.state, ref, &info), JFS_OK);
    CHECK_EQ(info.delivery_count, 0);
    CHECK_EQ(info.scheduled_ms, 1000);
    CHECK_EQ(jfs_state_scheduled(l.state, slot_of(&l, Q), 1500, due, 4, &count), JFS_OK);
    check_ids(&l, due, count, (const int64_t[]){3, 1, 0});
    CHECK_EQ(jfs_state_find(l.state, slot_of(&l, R), 4, &ref), JFS_OK);
    CHECK_EQ(ref, JFS_NONE);
    live_free(&l);
    journal_close(&j);
}

/* More references than a list is walked for: all are found, and acknowledged in any order. */
static void one_message_in_many_queues(void) {
    enum { QUEUES = 300 };
    journal j;
    live l;
    uint32_t refs[QUEUES], count;
    journal_open(&j, 2, 1);
    message(&j, 1, 4);
    for (int64_t q = 0; q < QUEUES; q++) update(&j, ADD_REF, 1, 100 + q, 0);
    for (int64_t q = 1; q < QUEUES; q += 2) update(&j, ACK, 1, 100 + q, 0);
    for (int64_t q = 1; q < 20; q += 2) update(&j, ADD_REF, 1, 100 + q, 0);
    l = live_of(&j);
    CHECK_EQ(jfs_state_message_refs(l.state, 1, refs, QUEUES, &count), JFS_OK);
    CHECK_EQ(count, QUEUES / 2 + 10);
    for (int64_t q = 0; q < QUEUES; q++) {
        uint32_t ref;
        CHECK_EQ(jfs_state_find(l.state, slot_of(&l, 100 + q), 1, &ref), JFS_OK);
        CHECK_EQ(ref != JFS_NONE, q % 2 == 0 || q < 20);
    }
    put_delete(&j, 1);
    live_apply(&l, 0, &j);
    for (int64_t q = 0; q < QUEUES; q++) CHECK_EQ(queue_of(&l, 100 + q).live_count, 0);
    live_free(&l);
    journal_close(&j);
}

static void a_message_found_again_moves(void) {
    journal first, second;
    live l = live_new();
    uint32_t ref;
    jfs_ref_info info;
    uint8_t used[2];
    journal_open(&first, 2, 1);
    journal_open(&second, 2, 2);
    sent(&first, 1, Q);
    message(&second, 7, 4);
    update(&second, ADD_REF, 7, Q, 0);
    message(&second, 1, 4);
    live_apply(&l, 0, &first);
    live_apply(&l, 1, &second);
    live_finish(&l);
    CHECK_LIVE(&l, Q, 1, 7, 0);
    CHECK_EQ(jfs_state_find(l.state, slot_of(&l, Q), 1, &ref), JFS_OK);
    CHECK_EQ(jfs_state_ref(l.state, ref, &info), JFS_OK);
    CHECK_EQ(info.file_slot, 1);
    jfs_state_used_files(l.state, used, 2);
    CHECK_EQ(used[0], 0);
    CHECK_EQ(used[1], 1);
    live_free(&l);
    journal_close(&first);
    journal_close(&second);
}

static void records_too_short_are_left_out(void) {
    const uint8_t body[20] = {0};
    journal j;
    live l;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    put_add(&j, JFS_UPDATE, 1, ADD_REF, body, 7);
    put_add(&j, JFS_UPDATE, 1, ACK, body, 0);
    put_add(&j, JFS_UPDATE, 1, DELIVERIES, body, 11);
    put_add(&j, JFS_UPDATE, 1, SCHEDULE, body, 15);
    put_add(&j, JFS_ADD, 2, CURSOR_ACK, body, 19);
    put_add_tx(&j, JFS_UPDATE_TX, 5, 1, ACK, body, 3);
    put_commit(&j, 5, 1);
    put_add(&j, JFS_ADD, 3, 45, body, 0); /* a message of no bytes is a damaged message, but a message */
    update(&j, ADD_REF, 3, Q, 0);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 1, 3, 0);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_SHORT_RECORD), 6);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_COMMIT_INCOMPLETE), 0);
    live_free(&l);
    journal_close(&j);
}

static void side_records_live_and_go(void) {
    uint8_t body[24];
    jfs_operation found[8];
    jfs_state_counts counts;
    uint32_t count;
    journal j;
    live l;
    journal_open(&j, 2, 1);
    put_add(&j, JFS_ADD, 50, PAGE_TX, body, numbers(body, 301, 10, 4, 0, 0));
    put_add(&j, JFS_UPDATE, 50, PAGE_TX, body, numbers(body, 301, 3, 4, 0, 0));
    for (int64_t id = 60; id < 64; id++) put_add(&j, JFS_ADD, id, CURSOR_ACK, body, numbers(body, Q, id, 8, 5, 4));
    put_add(&j, JFS_ADD, 70, 99, "?", 1);
    put_delete(&j, 61);
    put_delete(&j, 63);
    l = live_of(&j);
    CHECK_EQ(jfs_state_side(l.state, PAGE_TX, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(found[0].a, 301);
    CHECK_EQ(found[0].b, 7);
    CHECK_EQ(jfs_state_side(l.state, CURSOR_ACK, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 2);
    CHECK_EQ(found[1].record_id, 62);
    CHECK_EQ(found[1].a, Q);
    CHECK_EQ(found[1].b, 62);
    CHECK_EQ(found[1].c, 5);
    CHECK_EQ(jfs_state_side(l.state, JFS_ANY_TYPE, found, 3, &count), JFS_FULL);
    CHECK_EQ(count, 4);
    jfs_state_count(l.state, &counts);
    CHECK_EQ(counts.side_records, 4);
    CHECK_EQ(counts.highest_id, 70);
    put_delete(&j, 60);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_side(l.state, CURSOR_ACK, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 1);
    live_free(&l);
    journal_close(&j);
}

static void what_becomes_of_pages_is_told(void) {
    uint8_t body[24], lost;
    jfs_operation found[4];
    uint32_t count;
    journal j;
    live l;
    journal_open(&j, 2, 1);
    put_add(&j, JFS_ADD, 50, PAGE_TX, body, numbers(body, 301, 10, 4, 0, 0));
    l = live_of(&j);
    CHECK_EQ(jfs_state_page_changes(l.state, found, 4, &count, &lost), JFS_OK);
    CHECK_EQ(lost, 1);
    CHECK_EQ(count, 0);
    put_add(&j, JFS_UPDATE, 50, PAGE_TX, body, numbers(body, 301, 3, 4, 0, 0));
    put_add(&j, JFS_ADD, 60, CURSOR_ACK, body, numbers(body, Q, 1, 8, 5, 4));
    put_add(&j, JFS_ADD, 70, 99, "?", 1);
    put_delete(&j, 60);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_page_changes(l.state, found, 2, &count, &lost), JFS_FULL);
    CHECK_EQ(jfs_state_page_changes(l.state, found, 4, &count, &lost), JFS_OK);
    CHECK_EQ(lost, 0);
    CHECK_EQ(count, 3);
    CHECK_EQ(found[0].kind, JFS_UPDATE);
    CHECK_EQ(found[0].b, 7);
    CHECK_EQ(found[1].kind, JFS_ADD);
    CHECK_EQ(found[2].kind, JFS_DELETE);
    CHECK_EQ(found[2].c, 5);
    for (int64_t id = 100; id <= 100 + JFS_PAGE_CHANGES_MAX / 64; id++) {
        journal_close(&j);
        journal_open(&j, 2, 1);
        l.applied[0] = 0;
        for (int i = 0; i < 64; i++) put_add(&j, JFS_ADD, id, CURSOR_ACK, body, numbers(body, Q, id, 8, i, 4));
        live_apply(&l, 0, &j);
    }
    CHECK_EQ(jfs_state_page_changes(l.state, found, 4, &count, &lost), JFS_OK);
    CHECK_EQ(lost, 1);
    CHECK_EQ(jfs_state_page_changes(l.state, found, 4, &count, &lost), JFS_OK);
    CHECK_EQ(lost, 0);
    live_free(&l);
    journal_close(&j);
}

/* After the load, what a broker appends takes effect at once. */
static void follows_what_is_appended(void) {
    journal j;
    live l;
    uint64_t version;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    l = live_of(&j);
    version = queue_of(&l, Q).version;
    message(&j, 2, 4);
    live_apply(&l, 0, &j); /* its reference is still on the way */
    CHECK_LIVE(&l, Q, 1, 0);
    CHECK_EQ(queue_of(&l, Q).version, version);
    update(&j, ADD_REF, 2, Q, 0);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 2, 0);
    CHECK(queue_of(&l, Q).version > version);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 10); /* not measured yet */
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 20);
    update(&j, ACK, 1, Q, 0);
    put_delete(&j, 1);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 2, 0);
    live_free(&l);
    journal_close(&j);
}

static void changed_queues_are_told_once(void) {
    enum { ROOM = 4 };
    uint64_t seen[ROOM] = {0};
    int64_t changed[ROOM];
    uint32_t count;
    journal j;
    live l;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    sent(&j, 2, R);
    l = live_of(&j);
    CHECK_EQ(jfs_state_queues_changed(l.state, seen, changed, 1, &count), JFS_FULL);
    CHECK_EQ(count, 2);
    CHECK_EQ(seen[0], 0);
    CHECK_EQ(jfs_state_queues_changed(l.state, seen, changed, ROOM, &count), JFS_OK);
    CHECK_EQ(count, 2);
    CHECK_EQ(jfs_state_queues_changed(l.state, seen, changed, ROOM, &count), JFS_OK);
    CHECK_EQ(count, 0);
    update(&j, ACK, 2, R, 0);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_queues_changed(l.state, seen, changed, ROOM, &count), JFS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(changed[0], R);
    live_free(&l);
    journal_close(&j);
}

static void a_busy_queue_stays_small(void) {
    journal j;
    live l = live_new();
    jfs_state_counts counts;
    for (int64_t round = 0; round < 200; round++) {
        journal_open(&j, 2, round + 1);
        for (int64_t id = round * 500 + 1; id <= round * 500 + 500; id++) {
            sent(&j, id, Q);
            if (id > 10) {
                update(&j, ACK, id - 10, Q, 0);
                put_delete(&j, id - 10);
            }
        }
        l.applied[0] = 0;
        live_apply(&l, 0, &j);
        if (round == 0) live_finish(&l);
        if (round == 199) CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
        journal_close(&j);
    }
    jfs_state_count(l.state, &counts);
    CHECK_EQ(counts.messages, 10);
    CHECK_EQ(queue_of(&l, Q).live_count, 10);
    CHECK(jfs_state_memory(l.state) < 500000);
    live_free(&l);
}

int main(void) {
    RUN(sends_acks_and_deletes);
    RUN(delivery_order_is_priority_then_arrival);
    RUN(deletes_reach_backward_and_forward);
    RUN(what_comes_before_its_message_is_lost);
    RUN(counts_and_schedules_decorate);
    RUN(one_message_in_many_queues);
    RUN(a_message_found_again_moves);
    RUN(records_too_short_are_left_out);
    RUN(side_records_live_and_go);
    RUN(what_becomes_of_pages_is_told);
    RUN(follows_what_is_appended);
    RUN(changed_queues_are_told_once);
    RUN(a_busy_queue_stays_small);
    return 0;
}
