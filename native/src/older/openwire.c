/* OpenWire in loose encoding: every field has its own bytes. What is not usual is left to the caller. */
#include "openwire.h"

enum {
    QUEUE = 100,
    TEMPORARY_TOPIC = 103,
    MESSAGE_ID = 110,
    LOCAL_TRANSACTION = 111,
    XA_TRANSACTION = 112,
    CONNECTION_ID = 120,
    CONSUMER_ID = 122,
    PRODUCER_ID = 123,
    BROKER_ID = 124
};

static int take_bool(jfs_reader *reader) { return jfs_take8(reader) != 0; }

static openwire_text take_text(jfs_reader *reader) {
    openwire_text text = {.present = take_bool(reader)};
    if (text.present) text.text = jfs_take(reader, jfs_take16(reader));
    return text;
}

static openwire_text take_binary(jfs_reader *reader) {
    openwire_text binary = {.present = take_bool(reader)};
    if (binary.present) binary.text = jfs_take_sized(reader);
    return binary;
}

/* Whether an object is there; one of another type is none of ours. */
static int take_object(jfs_reader *reader, uint8_t kind) {
    if (!take_bool(reader)) return 0;
    if (jfs_take8(reader) != kind) reader->bad = 1;
    return !reader->bad;
}

static openwire_text take_destination(jfs_reader *reader) {
    openwire_text found = {.present = take_bool(reader)};
    if (!found.present) return found;
    found.kind = jfs_take8(reader);
    if (found.kind < QUEUE || found.kind > TEMPORARY_TOPIC) reader->bad = 1;
    const openwire_text name = take_text(reader);
    found.text = name.text;
    return found;
}

static void skip_transaction(jfs_reader *reader) {
    if (!take_bool(reader)) return;
    switch (jfs_take8(reader)) {
    case LOCAL_TRANSACTION:
        jfs_take64(reader);
        if (take_object(reader, CONNECTION_ID)) take_text(reader);
        break;
    case XA_TRANSACTION:
        jfs_take32(reader);
        take_binary(reader);
        take_binary(reader);
        break;
    default: reader->bad = 1;
    }
}

static openwire_producer take_producer(jfs_reader *reader) {
    openwire_producer found = {.present = take_object(reader, PRODUCER_ID)};
    if (!found.present) return found;
    found.connection = take_text(reader);
    found.value = (int64_t)jfs_take64(reader);
    found.session = (int64_t)jfs_take64(reader);
    return found;
}

/* From version 10 on a text lies before the producer, which begins with a 1 and its type. */
static int has_foreign_id(const jfs_reader *reader) {
    return jfs_left(reader) < 2 || reader->at[0] != 1 || reader->at[1] != PRODUCER_ID;
}

static void take_id(jfs_reader *reader, openwire_message *message) {
    if (!take_object(reader, MESSAGE_ID)) {
        reader->bad = 1; /* a message without an id is not usual */
        return;
    }
    if (has_foreign_id(reader)) message->foreign_id = take_text(reader);
    message->id_producer = take_producer(reader);
    message->id_sequence = (int64_t)jfs_take64(reader);
    jfs_take64(reader);
}

static void skip_consumer(jfs_reader *reader) {
    if (!take_object(reader, CONSUMER_ID)) return;
    take_text(reader);
    jfs_take64(reader);
    jfs_take64(reader);
}

static void take_brokers(jfs_reader *reader, openwire_brokers *found) {
    found->count = 0;
    if (!take_bool(reader)) return;
    const int16_t count = (int16_t)jfs_take16(reader);
    if (count > OPENWIRE_BROKERS_MAX) reader->bad = 1;
    for (int16_t i = 0; i < count && !reader->bad; i++)
        found->names[found->count++] = take_object(reader, BROKER_ID) ? take_text(reader).text : (jfs_view){NULL, 0};
}

int jfs_openwire_parse(jfs_view command, openwire_message *message) {
    jfs_reader reader = jfs_reader_over(command);
    message->kind = jfs_take8(&reader);
    if (reader.bad || message->kind < OPENWIRE_MESSAGE || message->kind > OPENWIRE_TEXT) return 0;
    message->foreign_id = (openwire_text){0};
    message->command_id = (int32_t)jfs_take32(&reader);
    jfs_take8(&reader); /* whether a response was asked for */
    message->producer = take_producer(&reader);
    take_destination(&reader);
    skip_transaction(&reader);
    message->original = take_destination(&reader);
    take_id(&reader, message);
    skip_transaction(&reader);
    message->group = take_text(&reader);
    message->group_sequence = (int32_t)jfs_take32(&reader);
    message->correlation_id = take_text(&reader);
    message->persistent = take_bool(&reader);
    message->expiration_ms = (int64_t)jfs_take64(&reader);
    message->priority = jfs_take8(&reader);
    message->reply_to = take_destination(&reader);
    message->timestamp_ms = (int64_t)jfs_take64(&reader);
    message->jms_type = take_text(&reader);
    message->content = take_binary(&reader);
    message->properties = take_binary(&reader);
    if (take_bool(&reader)) return 0; /* a command within it */
    skip_consumer(&reader);
    message->compressed = take_bool(&reader);
    message->redeliveries = (int32_t)jfs_take32(&reader);
    take_brokers(&reader, &message->broker_path);
    message->arrival_ms = (int64_t)jfs_take64(&reader);
    message->user = take_text(&reader);
    jfs_take8(&reader); /* whether it came through an old bridge */
    message->droppable = take_bool(&reader);
    take_brokers(&reader, &message->cluster);
    message->broker_in_ms = (int64_t)jfs_take64(&reader);
    jfs_take64(&reader); /* when it left a broker */
    return !reader.bad;
}

/* -- heads -------------------------------------------------------------------------------------------------------- */

enum { MESSAGE_ACK = 22, TOPIC_ACK = 50, QUEUE_ACK = 52 };

static jfs_view since(const jfs_reader *reader, const uint8_t *begin) {
    return (jfs_view){begin, (uint64_t)(reader->at - begin)};
}

static jfs_view span_destination(jfs_reader *reader) {
    const uint8_t *const begin = reader->at;
    take_destination(reader);
    return since(reader, begin);
}

static jfs_view span_transaction(jfs_reader *reader) {
    const uint8_t *const begin = reader->at;
    skip_transaction(reader);
    return since(reader, begin);
}

/* An id of another protocol is not usual. */
static void span_id(jfs_reader *reader, openwire_head *head) {
    if (!take_object(reader, MESSAGE_ID) || (has_foreign_id(reader) && take_text(reader).present)) {
        reader->bad = 1;
        return;
    }
    const uint8_t *const begin = reader->at;
    take_producer(reader);
    head->producer = since(reader, begin);
    head->sequence = (int64_t)jfs_take64(reader);
    jfs_take64(reader);
}

static void head_of_message(jfs_reader *reader, openwire_head *head) {
    jfs_take32(reader);
    jfs_take8(reader);
    take_producer(reader);
    head->destination = span_destination(reader);
    head->transaction = span_transaction(reader);
    take_destination(reader);
    span_id(reader, head);
}

static void head_of_queue_ack(jfs_reader *reader, openwire_head *head) {
    head->destination = span_destination(reader);
    if (!take_object(reader, MESSAGE_ACK)) reader->bad = 1;
    jfs_take32(reader);
    jfs_take8(reader);
    take_destination(reader);
    head->transaction = span_transaction(reader);
    skip_consumer(reader);
    jfs_take8(reader);
    openwire_head first = {0};
    if (jfs_left(reader) > 0 && reader->at[0] == 0)
        jfs_take8(reader); /* of a range only the last is named */
    else
        span_id(reader, &first);
    span_id(reader, head);
}

static void head_of_topic_ack(jfs_reader *reader, openwire_head *head) {
    head->destination = span_destination(reader);
    span_id(reader, head);
    jfs_take64(reader);
    const uint8_t *const begin = reader->at;
    take_text(reader);
    take_text(reader);
    head->subscription = since(reader, begin);
    head->transaction = span_transaction(reader);
}

int jfs_openwire_head(jfs_view command, openwire_head *head) {
    jfs_reader reader = jfs_reader_over(command);
    const uint8_t kind = jfs_take8(&reader);
    memset(head, 0, sizeof *head);
    if (kind >= OPENWIRE_MESSAGE && kind <= OPENWIRE_TEXT + 1)
        head_of_message(&reader, head);
    else if (kind == QUEUE_ACK)
        head_of_queue_ack(&reader, head);
    else if (kind == TOPIC_ACK)
        head_of_topic_ack(&reader, head);
    else
        return 0;
    return !reader.bad;
}
