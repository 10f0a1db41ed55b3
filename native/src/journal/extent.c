/* Where a payload ends that has something behind it. */
#include "amqp.h"

/* Passes over the fields that the record of a large AMQP message caches (docs/format/messages.md, "AMQP large
 * message"). */
static void skip_amqp_large(jfs_reader *reader) {
    int null_address;
    jfs_take(reader, 8 + 1 + 8);
    jfs_take_nullable(reader, &null_address);
    jfs_take_sized(reader); /* extra properties */
    jfs_take(reader, 8);
    jfs_skip_amqp(reader); /* header */
    jfs_take(reader, 8 + 4);
    jfs_skip_amqp(reader); /* message annotations */
    jfs_take(reader, 4);
    jfs_skip_amqp(reader); /* properties */
    jfs_take(reader, 4 + 4);
    jfs_skip_amqp(reader);   /* application properties */
    jfs_take(reader, 8 + 1); /* expiration, re-encoded: in a page they are always there */
}

static void skip_message(jfs_reader *reader, uint8_t persister) {
    int null_address;
    if (persister == 4) {
        skip_amqp_large(reader);
        return;
    }
    jfs_take(reader, persister == 1 ? 8 : 16); /* id; AMQP: and message format */
    jfs_take_nullable(reader, &null_address);
    jfs_take_sized(reader);
    if (persister == 3 || persister == 5) jfs_take_sized(reader); /* extra properties */
    if (persister == 5) jfs_take(reader, 8);
}

uint64_t jfs_payload_extent(jfs_view from) {
    jfs_reader reader = jfs_reader_over(from);
    const uint8_t persister = jfs_take8(&reader);
    if (persister < 1 || persister > 5) return UINT64_MAX;
    skip_message(&reader, persister);
    return reader.bad ? UINT64_MAX : (uint64_t)(reader.at - from.at);
}
