/* Core messages: the header and the body by type. */
#include "message.h"
#include "properties.h"

/* The 13 bytes of a packet header that the end-of-body field has counted ever since. */
enum { BODY_OFFSET = 13 };

static int is_named(jfs_view key, const char *name) {
    const uint64_t prefix = key.at[2] == 'A' ? 10 : 8;
    if (!jfs_key_is((jfs_view){key.at, prefix < key.bytes ? prefix : key.bytes}, prefix == 10 ? "_AMQ_" : "_HQ_"))
        return 0;
    return jfs_key_is((jfs_view){key.at + prefix, key.bytes - prefix}, name);
}

static void note_property(jfs_message *message, const jfs_property *property) {
    const jfs_value *value = &property->value;
    /* Nearly all names that matter begin with _AMQ_, or _HQ_ as HornetQ wrote it; most are the application's. */
    if (property->key.bytes < 10 || property->key.at[0] != '_') return;
    if (property->key.at[2] != 'A' && property->key.at[2] != 'H') return;
    if (is_named(property->key, "GROUP_ID") && value->code == JFS_CODE_STRING) {
        message->group = value->bytes;
    } else if (is_named(property->key, "DUPL_ID")) {
        if (value->code == JFS_CODE_STRING || value->code == JFS_CODE_BYTES) {
            message->duplicate = value->bytes;
            message->duplicate_raw = value->code == JFS_CODE_BYTES;
        }
    } else if (is_named(property->key, "SCHED_DELIVERY") && value->code == JFS_CODE_LONG) {
        message->scheduled_ms = jfs_value_integer(value);
    } else if (is_named(property->key, "LARGE_COMPRESSED") && value->code == JFS_CODE_BOOLEAN) {
        message->compressed = value->bytes.at[0] != 0;
    } else if (is_named(property->key, "LARGE_SIZE") && value->code == JFS_CODE_LONG) {
        message->large_size = jfs_value_integer(value);
    }
}

/* The header as it stands behind the body, or alone for a large message. */
static int parse_header(jfs_message *message, jfs_reader *reader) {
    const char *reason = NULL;
    int null_address;
    int64_t id = (int64_t)jfs_take64(reader);
    if ((message->has & JFS_HAS_ID) == 0 && !reader->bad) {
        message->id = id;
        message->has |= JFS_HAS_ID;
    } else if (id != message->id) {
        message->irregular = 1;
    }
    jfs_view address = jfs_take_nullable(reader, &null_address);
    if (!reader->bad) {
        const jfs_view before = message->address;
        if ((message->has & JFS_HAS_ADDRESS) != 0 &&
            (before.bytes != address.bytes || (before.at == NULL) != (address.at == NULL) ||
             (address.bytes > 0 && memcmp(before.at, address.at, address.bytes) != 0)))
            message->irregular = 1;
        if ((message->has & JFS_HAS_ADDRESS) == 0 || before.at == NULL) message->address = address;
        message->has |= JFS_HAS_ADDRESS;
    }
    uint8_t user_mark = jfs_take8(reader);
    if (user_mark != 0) message->user_id = jfs_take(reader, 16);
    message->type = jfs_take8(reader);
    uint8_t durable = jfs_take8(reader);
    message->durable = durable != 0;
    message->expiration_ms = (int64_t)jfs_take64(reader);
    message->timestamp_ms = (int64_t)jfs_take64(reader);
    message->priority = jfs_take8(reader);
    if (reader->bad) return jfs_damaged(message, "the header ends too early");
    if (durable > 1 || user_mark > 1 || message->priority > 9) message->irregular = 1;
    if (!jfs_take_properties(reader, &message->properties, &reason, &message->irregular))
        return jfs_damaged(message, reason);
    message->has |= JFS_HAS_HEADER;
    jfs_reader entries = jfs_reader_over(message->properties.bytes);
    for (uint32_t i = 0; i < message->properties.count; i++) {
        jfs_property property = jfs_next_property(&entries);
        note_property(message, &property);
    }
    if (jfs_left(reader) > 0) message->irregular = 1;
    return 1;
}

static int parse_text(jfs_message *message, jfs_reader *reader) {
    message->body_kind = JFS_BODY_NULL;
    if (jfs_left(reader) == 0) return 1;
    uint8_t mark = jfs_take8(reader);
    if (mark != 0) {
        message->body_kind = JFS_BODY_TEXT;
        message->body = jfs_take_sized(reader);
        if (reader->bad) return jfs_damaged(message, "the text is shorter than it says");
        if (message->body.bytes & 1) return jfs_damaged(message, "the text ends in half a character");
    }
    if (mark > 1 || jfs_left(reader) > 0) message->irregular = 1;
    return 1;
}

static int parse_object(jfs_message *message, jfs_reader *reader) {
    message->body_kind = JFS_BODY_OBJECT;
    message->body = (jfs_view){reader->at, 0};
    if (jfs_left(reader) == 0) return 1;
    message->body = jfs_take_sized(reader);
    if (reader->bad) return jfs_damaged(message, "the object is shorter than it says");
    if (jfs_left(reader) > 0) message->irregular = 1;
    return 1;
}

static int parse_map(jfs_message *message, jfs_reader *reader) {
    const char *reason = NULL;
    jfs_entries entries = {{NULL, 0}, 0};
    uint8_t odd_keys = 0;
    message->body_kind = JFS_BODY_MAP;
    if (jfs_left(reader) > 0 && !jfs_take_properties(reader, &entries, &reason, &odd_keys))
        return jfs_damaged(message, reason);
    message->body = entries.bytes;
    message->map_count = entries.count;
    if (odd_keys || jfs_left(reader) > 0) message->irregular = 1;
    return 1;
}

static int parse_stream(jfs_message *message, jfs_reader *reader) {
    message->body_kind = JFS_BODY_STREAM;
    message->body = (jfs_view){reader->at, jfs_left(reader)};
    while (reader->at < reader->end) {
        const uint8_t code = *reader->at;
        jfs_value value = jfs_take_stream_value(reader);
        if (value.code == UINT8_MAX) return jfs_damaged(message, "the stream holds a value of unknown type");
        if (reader->bad) return jfs_damaged(message, "the stream ends inside a value");
        if (value.text == JFS_STRING_UTF && !jfs_is_utf(value.bytes))
            return jfs_damaged(message, "a string of the stream is no UTF");
        if (code == JFS_CODE_NULL) message->irregular = 1; /* a null is written as a string that is not there */
        /* Unlike in properties, true is written as ff. */
        if (code == JFS_CODE_BOOLEAN && value.bytes.at[0] != 0 && value.bytes.at[0] != 0xff) message->irregular = 1;
    }
    return 1;
}

static void parse_body(jfs_message *message, jfs_view body) {
    jfs_reader reader = jfs_reader_over(body);
    int good = 1;
    switch (message->type) {
    case JFS_TYPE_TEXT: good = parse_text(message, &reader); break;
    case JFS_TYPE_MAP: good = parse_map(message, &reader); break;
    case JFS_TYPE_STREAM: good = parse_stream(message, &reader); break;
    case JFS_TYPE_OBJECT: good = parse_object(message, &reader); break;
    default:
        message->body_kind = JFS_BODY_RAW;
        message->body = body;
        break;
    }
    if (!good) {
        message->body_kind = JFS_BODY_RAW;
        message->body = body;
    }
    message->has |= JFS_HAS_BODY;
}

/* A client that compresses its bodies finds out only then that one is no longer large. */
static void parse_small_body(jfs_message *message, jfs_view body) {
    if (!message->compressed || body.bytes == 0) {
        parse_body(message, body);
    } else if (message->arena == NULL) {
        message->needs_arena = 1;
    } else {
        jfs_view inflated;
        const char *reason = jfs_inflate(message->arena, body, &inflated);
        if (reason == NULL) {
            parse_body(message, inflated);
        } else {
            message->body_kind = JFS_BODY_RAW;
            message->body = body;
            message->has |= JFS_HAS_BODY;
            jfs_damaged(message, reason);
        }
    }
}

static void parse_large(jfs_message *message, jfs_reader *reader) {
    message->is_large = 1;
    if (!parse_header(message, reader)) return;
    if (message->large.at == NULL) {
        jfs_incomplete(message, "the large body's file is missing");
        return;
    }
    if (message->large_size >= 0 && (uint64_t)message->large_size > message->large.bytes)
        jfs_damaged(message, "the large body's file is shorter than the message says");
    parse_body(message, message->large);
}

void jfs_core_parse(jfs_message *message, jfs_reader *reader) {
    message->protocol = JFS_CORE;
    if (message->persister == 0) {
        parse_large(message, reader);
        return;
    }
    int null_address;
    message->id = (int64_t)jfs_take64(reader);
    if (!reader->bad) message->has |= JFS_HAS_ID;
    message->address = jfs_take_nullable(reader, &null_address);
    if (!reader->bad) message->has |= JFS_HAS_ADDRESS;
    jfs_view buffer = jfs_take_sized(reader);
    if (reader->bad) {
        jfs_damaged(message, "the message is shorter than it says");
        return;
    }
    if (jfs_left(reader) > 0) message->irregular = 1;
    jfs_reader inner = jfs_reader_over(buffer);
    uint32_t body_end = jfs_take32(&inner);
    if (inner.bad || body_end < BODY_OFFSET || body_end > INT32_MAX || body_end - BODY_OFFSET > jfs_left(&inner)) {
        jfs_damaged(message, "the body does not fit into the message");
        return;
    }
    jfs_view body = jfs_take(&inner, body_end - BODY_OFFSET);
    if (parse_header(message, &inner)) parse_small_body(message, body);
}
