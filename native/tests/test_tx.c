/* Transactions: counts, files they span, prepared ones, and ends that never come. */
#include "live.h"

enum { Q = 21 };

static uint32_t open_transactions(const live *l, jfs_tx_info *out) {
    uint32_t count;
    CHECK_EQ(jfs_state_transactions(l->state, out, 8, &count), JFS_OK);
    return count;
}

static void commits_take_effect_in_order(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    message_tx(&j, 100, 1);
    update_tx(&j, 100, ADD_REF, 1, Q);
    sent(&j, 2, Q);
    message_tx(&j, 101, 3);
    update_tx(&j, 101, ADD_REF, 3, Q);
    put_commit(&j, 101, 2);
    put_commit(&j, 100, 2); /* arrives now */
    update_tx(&j, 102, ACK, 2, Q);
    put_rollback(&j, 102);
    put_commit(&j, 102, 0); /* unknown by now: its records were reclaimed, or it is over */
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 2, 3, 1, 0);
    CHECK_EQ(open_transactions(&l, NULL), 0);
    live_free(&l);
    journal_close(&j);
}

static void a_delete_in_a_transaction_comes_last(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    put_add_tx(&j, JFS_DELETE_TX, 100, 2, 0, "", 0);
    message_tx(&j, 100, 2);
    update_tx(&j, 100, ADD_REF, 2, Q);
    put_add_tx(&j, JFS_DELETE_TX, 101, 1, 0, "", 0); /* never committed */
    put_commit(&j, 100, 3);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 1, 0);
    live_free(&l);
    journal_close(&j);
}

static void a_wrong_count_drops_the_whole(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    message_tx(&j, 100, 1);
    update_tx(&j, 100, ADD_REF, 1, Q);
    put_commit(&j, 100, 3);
    message_tx(&j, 101, 2);
    update_tx(&j, 101, ADD_REF, 2, Q);
    put_commit(&j, 101, -2);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 0);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_COMMIT_INCOMPLETE), 2);
    live_free(&l);
    journal_close(&j);
}

/* They cannot have been reclaimed: they were in the file of the COMMIT. */
static void a_commit_of_records_that_are_not_there(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    put_commit(&j, 100, 0);
    put_commit(&j, 101, 2);
    l = live_of(&j);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_COMMIT_INCOMPLETE), 1);
    live_free(&l);
    journal_close(&j);
}

/* The count is of the records in the file of the COMMIT, and nothing else is checked. */
static void counts_are_per_file(void) {
    journal first, second, third;
    live l = live_new();
    journal_open(&first, 2, 1);
    journal_open(&second, 2, 2);
    journal_open(&third, 2, 3);
    message_tx(&first, 100, 1);
    update_tx(&first, 100, ADD_REF, 1, Q);
    message_tx(&first, 101, 2);
    update_tx(&first, 101, ADD_REF, 2, Q);
    message_tx(&first, 102, 3);
    update_tx(&first, 102, ADD_REF, 3, Q);
    message_tx(&second, 100, 4);
    update_tx(&second, 100, ADD_REF, 4, Q);
    put_commit(&second, 100, 2);
    put_commit(&third, 101, 0);
    put_commit(&third, 102, 2);
    live_apply(&l, 0, &first);
    live_apply(&l, 1, &second);
    live_apply(&l, 2, &third);
    live_finish(&l);
    CHECK_LIVE(&l, Q, 1, 4, 2, 0);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_COMMIT_INCOMPLETE), 1);
    live_free(&l);
    journal_close(&first);
    journal_close(&second);
    journal_close(&third);
}

static void prepared_ones_hide_what_they_do(void) {
    journal j;
    live l;
    jfs_tx_info txs[8];
    jfs_operation operations[8];
    uint32_t count;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    sent(&j, 2, Q);
    update_tx(&j, 67, ACK, 1, Q);
    message_tx(&j, 67, 3);
    update_tx(&j, 67, ADD_REF, 3, Q);
    put_prepare(&j, 67, 3, "xid", 3);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 2, 0);
    CHECK_QUEUE(&l, Q, JFS_ORDER_ARRIVAL, JFS_INCLUDE_DELIVERING, 1, 0);
    CHECK_QUEUE(&l, Q, JFS_ORDER_DELIVERY, JFS_INCLUDE_ALL, 1, 2, 0);
    CHECK_EQ(queue_of(&l, Q).delivering_count, 1);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 10);
    CHECK_EQ(open_transactions(&l, txs), 1);
    CHECK_EQ(txs[0].tx_id, 67);
    CHECK_EQ(txs[0].flags, JFS_TX_PREPARED);
    CHECK_EQ(memcmp(j.bytes + txs[0].extra_offset, "xid", txs[0].extra_bytes), 0);
    CHECK_EQ(jfs_state_operations(l.state, 67, operations, 8, &count), JFS_OK);
    CHECK_EQ(count, 3);
    CHECK_EQ(operations[0].user_type, ACK);
    CHECK_EQ(operations[0].a, Q);
    CHECK_EQ(operations[1].record_id, 3);
    put_commit(&j, 67, 3); /* the broker counts the same records as the PREPARE */
    live_apply(&l, 0, &j);
    CHECK_QUEUE(&l, Q, JFS_ORDER_ARRIVAL, JFS_INCLUDE_ALL, 2, 3, 0);
    CHECK_EQ(open_transactions(&l, txs), 0);
    live_free(&l);
    journal_close(&j);
}

/* Prepared while we look, and rolled back: the reference is back in its place. */
static void rolling_back_shows_again(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    sent(&j, 2, Q);
    l = live_of(&j);
    update_tx(&j, 67, ACK, 1, Q);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 2, 0); /* not prepared yet */
    put_prepare(&j, 67, 1, "", 0);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 2, 0);
    put_rollback(&j, 67);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 2, 0);
    CHECK_EQ(queue_of(&l, Q).delivering_count, 0);
    live_free(&l);
    journal_close(&j);
}

/* No broker prepares twice; what the second one adds is hidden too, and all of it comes back. */
static void preparing_again_hides_what_was_added(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 3; id++) sent(&j, id, Q);
    l = live_of(&j);
    update_tx(&j, 67, ACK, 1, Q);
    put_prepare(&j, 67, 1, "", 0);
    update_tx(&j, 67, ACK, 3, Q);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 2, 0);
    put_prepare(&j, 67, 2, "", 0);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 2, 0);
    put_commit(&j, 67, 5); /* a wrong count drops the transaction */
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 2, 3, 0);
    live_free(&l);
    journal_close(&j);
}

/* A lost body with a PREPARE and its end: stops a broker's loader, and must not stop us. */
static void an_incomplete_prepare_does_nothing(void) {
    journal j;
    live l;
    jfs_tx_info txs[8];
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    put_prepare(&j, 67, 2, "", 0);
    put_commit(&j, 67, 0);
    put_prepare(&j, 68, 2, "", 0);
    put_rollback(&j, 68);
    update_tx(&j, 69, ACK, 1, Q);
    put_prepare(&j, 69, 2, "", 0);
    l = live_of(&j);
    CHECK_LIVE(&l, Q, 1, 0);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_PREPARE_INCOMPLETE), 3);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_TX_UNFINISHED), 1);
    CHECK_EQ(open_transactions(&l, txs), 1);
    CHECK_EQ(txs[0].flags, JFS_TX_PREPARED | JFS_TX_INVALID);
    live_free(&l);
    journal_close(&j);
}

/* A broker at work when the journal was read: what it had begun it can still end. */
static void unfinished_ones_can_still_end(void) {
    journal j;
    live l = live_new();
    journal_open(&j, 2, 1);
    message_tx(&j, 100, 1);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_finish(l.state, 1), JFS_OK);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_TX_UNFINISHED), 1);
    update_tx(&j, 100, ADD_REF, 1, Q);
    put_commit(&j, 100, 2);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 0);
    live_free(&l);
    journal_close(&j);
}

/* A message whose only reference is in an open transaction is not without references. */
static void a_promised_reference_keeps_its_message(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    message(&j, 1, 4);
    update_tx(&j, 100, ADD_REF, 1, Q);
    message(&j, 2, 4);
    l = live_of(&j);
    CHECK_EQ(anomalies_of(&l, JFS_ANOMALY_NO_REFERENCES), 1);
    put_commit(&j, 100, 1);
    live_apply(&l, 0, &j);
    CHECK_LIVE(&l, Q, 1, 0);
    live_free(&l);
    journal_close(&j);
}

static void many_at_once_reuse_their_room(void) {
    jfs_state_counts counts;
    live l = live_new();
    journal j;
    for (int64_t round = 0; round < 100; round++) {
        journal_open(&j, 2, round + 1);
        for (int64_t tx = 1; tx <= 300; tx++) message_tx(&j, round * 1000 + tx, round * 1000 + tx);
        for (int64_t tx = 300; tx >= 1; tx--) put_rollback(&j, round * 1000 + tx);
        l.applied[0] = 0;
        live_apply(&l, 0, &j);
        journal_close(&j);
    }
    jfs_state_count(l.state, &counts);
    CHECK_EQ(counts.transactions, 0);
    CHECK(jfs_state_memory(l.state) < 100000);
    live_free(&l);
}

int main(void) {
    RUN(commits_take_effect_in_order);
    RUN(a_delete_in_a_transaction_comes_last);
    RUN(a_wrong_count_drops_the_whole);
    RUN(a_commit_of_records_that_are_not_there);
    RUN(counts_are_per_file);
    RUN(prepared_ones_hide_what_they_do);
    RUN(rolling_back_shows_again);
    RUN(preparing_again_hides_what_was_added);
    RUN(an_incomplete_prepare_does_nothing);
    RUN(unfinished_ones_can_still_end);
    RUN(a_promised_reference_keeps_its_message);
    RUN(many_at_once_reuse_their_room);
    return 0;
}
