/* AMQP messages: the records of persisters 2 to 5, and the sections of the encoded message. */
#include "amqp.h"
#include "properties.h"

typedef struct {
    const char *name;
    jfs_amqp_type type; /* JFS_A_UNKNOWN: any */
} section_rule;

static const section_rule rules[JFS_SECTIONS] = {
    {"amqp:header:list", JFS_A_LIST},
    {"amqp:delivery-annotations:map", JFS_A_MAP},
    {"amqp:message-annotations:map", JFS_A_MAP},
    {"amqp:properties:list", JFS_A_LIST},
    {"amqp:application-properties:map", JFS_A_MAP},
    {"amqp:data:binary", JFS_A_BINARY},
    {"amqp:amqp-sequence:list", JFS_A_LIST},
    {"amqp:amqp-value:*", JFS_A_UNKNOWN},
    {"amqp:footer:map", JFS_A_MAP},
};

enum { FIRST_DESCRIPTOR = 0x70, HEADER_FIELDS = 5, PROPERTIES_FIELDS = 13 };

/* Field numbers of the lists. */
enum { HEADER_DURABLE = 0, HEADER_PRIORITY = 1, HEADER_TTL = 2, PROPERTIES_EXPIRY = 8, PROPERTIES_CREATION = 9 };

/* Reads a section's descriptor; its number, or -1. */
static int take_descriptor(jfs_reader *reader, uint8_t *irregular) {
    if (jfs_take8(reader) != 0) return -1;
    jfs_amqp descriptor = jfs_take_amqp(reader);
    if (reader->bad) return -1;
    if (descriptor.type == JFS_A_ULONG) {
        if (descriptor.number < FIRST_DESCRIPTOR || descriptor.number >= FIRST_DESCRIPTOR + JFS_SECTIONS) return -1;
        return (int)(descriptor.number - FIRST_DESCRIPTOR);
    }
    if (descriptor.type != JFS_A_SYMBOL) return -1;
    *irregular = 1; /* the symbolic form is legal, but nobody would write it again */
    for (int i = 0; i < JFS_SECTIONS; i++)
        if (strlen(rules[i].name) == descriptor.bytes.bytes &&
            memcmp(rules[i].name, descriptor.bytes.at, descriptor.bytes.bytes) == 0)
            return i;
    return -1;
}

jfs_amqp jfs_amqp_section(const jfs_message *message, int section) {
    jfs_reader reader = jfs_reader_over(message->sections[section]);
    jfs_amqp null = {JFS_A_NULL, 0x40, {NULL, 0}, 0, 0, {NULL, 0}};
    return reader.at == NULL ? null : jfs_take_amqp(&reader);
}

jfs_amqp jfs_amqp_field(const jfs_amqp *list, uint32_t index) {
    jfs_reader reader = jfs_reader_over(list->bytes);
    jfs_amqp value = {JFS_A_NULL, 0x40, {NULL, 0}, 0, 0, {NULL, 0}};
    if (list->type != JFS_A_LIST || index >= list->count) return value;
    for (uint32_t i = 0; i <= index; i++) value = jfs_take_amqp(&reader);
    return value;
}

int jfs_next_body_section(jfs_reader *reader, jfs_amqp *value) {
    uint8_t ignored = 0;
    if (reader->at == reader->end) return 0;
    take_descriptor(reader, &ignored);
    *value = jfs_take_amqp(reader);
    return !reader->bad;
}

static const jfs_body_kind body_kinds[] = {JFS_BODY_DATA, JFS_BODY_SEQUENCE, JFS_BODY_VALUE};

/* Files one checked section. Returns 0 when it may not stand here. */
static int note_section(jfs_message *message, int section, const uint8_t *begin, jfs_view value,
                        const jfs_amqp *decoded) {
    const int repeats = section == JFS_SECTION_DATA || section == JFS_SECTION_SEQUENCE;
    if (message->sections[section].at != NULL && !repeats) return 0;
    message->sections[section] = value;
    if (section < JFS_SECTION_DATA || section > JFS_SECTION_VALUE) return 1;
    if (message->body_sections++ == 0) {
        message->body_kind = (uint8_t)body_kinds[section - JFS_SECTION_DATA];
        message->body.at = begin;
    } else if (message->body_kind != body_kinds[section - JFS_SECTION_DATA]) {
        return 0;
    }
    message->body.bytes = (uint64_t)(value.at + value.bytes - message->body.at);
    if (section == JFS_SECTION_DATA) message->data_bytes += decoded->bytes.bytes;
    return 1;
}

static int parse_sections(jfs_message *message, jfs_view encoding) {
    jfs_reader reader = jfs_reader_over(encoding);
    jfs_amqp_budget budget = {JFS_AMQP_WIDTHLESS_MAX, JFS_AMQP_REPEATED_MAX, NULL};
    int last = -1;
    while (reader.at < reader.end) {
        const uint8_t *begin = reader.at;
        int section = take_descriptor(&reader, &message->irregular);
        if (section < 0) return jfs_damaged(message, "an AMQP section has an unknown descriptor");
        if (section < last) return jfs_damaged(message, "the AMQP sections are out of order");
        last = section;
        const uint8_t *at = reader.at;
        if (!jfs_check_amqp(&reader, &budget, 0)) return jfs_damaged(message, budget.reason);
        jfs_reader again = {at, reader.at, 0};
        jfs_amqp value = jfs_take_amqp(&again);
        if (value.type == JFS_A_NULL && section != JFS_SECTION_VALUE) {
            message->irregular = 1; /* an empty section, as if it were not there */
            continue;
        }
        if (rules[section].type != JFS_A_UNKNOWN && value.type != rules[section].type)
            return jfs_damaged(message, "an AMQP section holds a value of the wrong type");
        if (!note_section(message, section, begin, (jfs_view){at, (uint64_t)(reader.at - at)}, &value))
            return jfs_damaged(message, "an AMQP section stands twice");
        if ((section == JFS_SECTION_HEADER && value.count > HEADER_FIELDS) ||
            (section == JFS_SECTION_PROPERTIES && value.count > PROPERTIES_FIELDS))
            message->irregular = 1;
    }
    message->has |= JFS_HAS_BODY;
    return 1;
}

static void note_schedule(jfs_message *message) {
    jfs_amqp annotations = jfs_amqp_section(message, JFS_SECTION_MESSAGE_ANNOTATIONS);
    jfs_reader reader = jfs_reader_over(annotations.bytes);
    for (uint32_t i = 0; annotations.type == JFS_A_MAP && i + 1 < annotations.count; i += 2) {
        static const char at_time[] = "x-opt-delivery-time", after[] = "x-opt-delivery-delay";
        jfs_amqp key = jfs_take_amqp(&reader), value = jfs_take_amqp(&reader);
        if (key.type != JFS_A_SYMBOL || value.type < JFS_A_UBYTE ||
            (value.type > JFS_A_LONG && value.type != JFS_A_TIMESTAMP))
            continue;
        if (key.bytes.bytes == sizeof at_time - 1 && memcmp(key.bytes.at, at_time, sizeof at_time - 1) == 0) {
            message->scheduled_ms = (int64_t)value.number;
            return;
        }
        if (key.bytes.bytes == sizeof after - 1 && memcmp(key.bytes.at, after, sizeof after - 1) == 0 &&
            message->timestamp_ms > 0 && value.number < INT64_MAX / 2)
            message->scheduled_ms = message->timestamp_ms + (int64_t)value.number;
    }
}

/* A record may say another time than the sections, of which a broker makes it when the message arrives. */
static void note_expiry(jfs_message *message, jfs_amqp header, jfs_amqp properties) {
    const jfs_amqp ttl = jfs_amqp_field(&header, HEADER_TTL), time = jfs_amqp_field(&properties, PROPERTIES_EXPIRY);
    const int64_t said_ms = time.type == JFS_A_TIMESTAMP ? (int64_t)time.number : 0;
    if (!message->has_expiration) {
        message->expiration_ms = said_ms;
    } else if (said_ms > 0 ? said_ms != message->expiration_ms
                           : ttl.type != JFS_A_NULL && message->expiration_ms == 0) {
        message->irregular = 1;
    }
}

/* What the envelope takes out of the sections; called with whatever sections are known. */
static void note_headers(jfs_message *message) {
    jfs_amqp header = jfs_amqp_section(message, JFS_SECTION_HEADER);
    jfs_amqp durable = jfs_amqp_field(&header, HEADER_DURABLE), priority = jfs_amqp_field(&header, HEADER_PRIORITY);
    /* The record of a large message says it; of others, one that was stored without a header was durable. */
    if (message->persister != 4)
        message->durable = header.type == JFS_A_NULL || (durable.type == JFS_A_BOOLEAN && durable.number != 0);
    message->priority = 4;
    if (priority.type == JFS_A_UBYTE) message->priority = (uint8_t)(priority.number > 9 ? 9 : priority.number);
    jfs_amqp properties = jfs_amqp_section(message, JFS_SECTION_PROPERTIES);
    jfs_amqp creation = jfs_amqp_field(&properties, PROPERTIES_CREATION);
    if (creation.type == JFS_A_TIMESTAMP) message->timestamp_ms = (int64_t)creation.number;
    note_expiry(message, header, properties);
    note_schedule(message);
    message->has |= JFS_HAS_HEADER;
}

/* Where the address field is null, the broker goes by this property. */
static void note_address(jfs_message *message) {
    jfs_reader reader = jfs_reader_over(message->extra.bytes);
    for (uint32_t i = 0; i < message->extra.count; i++) {
        jfs_property property = jfs_next_property(&reader);
        if (property.value.code != JFS_CODE_STRING || !jfs_key_is(property.key, "_AMQ_AD")) continue;
        const jfs_view address = property.value.bytes;
        if (message->address.at == NULL)
            message->address = address;
        else if (message->address.bytes == address.bytes &&
                 memcmp(message->address.at, address.at, address.bytes) == 0)
            message->extra_is_address = message->extra.count == 1;
    }
}

/* i32 size, then TypedProperties of that size; size 0: none. */
static int take_extra(jfs_message *message, jfs_reader *reader) {
    const char *reason = NULL;
    jfs_reader inner = jfs_reader_over(jfs_take_sized(reader));
    if (reader->bad) return jfs_damaged(message, "the extra properties end too early");
    if (inner.at == inner.end) return 1;
    if (!jfs_take_properties(&inner, &message->extra, &reason, &message->irregular))
        return jfs_damaged(message, reason);
    if (jfs_left(&inner) > 0) message->irregular = 1;
    note_address(message);
    return 1;
}

static void take_front(jfs_message *message, jfs_reader *reader) {
    message->id = (int64_t)jfs_take64(reader);
    if (!reader->bad) message->has |= JFS_HAS_ID;
    if (message->persister == 4) message->durable = jfs_take8(reader) != 0;
    message->message_format = (int64_t)jfs_take64(reader);
    int null_address;
    message->address = jfs_take_nullable(reader, &null_address);
    if (!reader->bad) message->has |= JFS_HAS_ADDRESS;
}

void jfs_amqp_parse(jfs_message *message, jfs_reader *reader) {
    message->protocol = JFS_AMQP;
    take_front(message, reader);
    jfs_view encoding = jfs_take_sized(reader);
    if (reader->bad) {
        jfs_damaged(message, "the message is shorter than it says");
        return;
    }
    if (message->persister >= 3 && !take_extra(message, reader)) return;
    if (message->persister == 5) {
        message->expiration_ms = (int64_t)jfs_take64(reader);
        message->has_expiration = 1;
        if (reader->bad) jfs_damaged(message, "the expiration is missing");
    }
    if (jfs_left(reader) > 0) message->irregular = 1;
    parse_sections(message, encoding);
    note_headers(message);
}

/* One section that the record of a large message repeats: a described value or null, behind its place in the body
 * file. */
static int take_cached(jfs_message *message, jfs_reader *reader, int section, jfs_view *sections) {
    jfs_amqp_budget budget = {JFS_AMQP_WIDTHLESS_MAX, JFS_AMQP_REPEATED_MAX, NULL};
    uint8_t ignored = 0;
    if (reader->at < reader->end && *reader->at == 0x40) {
        jfs_take8(reader);
        return 1;
    }
    if (take_descriptor(reader, &ignored) != section)
        return jfs_damaged(message, "a cached AMQP section is another one");
    const uint8_t *at = reader->at;
    if (!jfs_check_amqp(reader, &budget, 0)) return jfs_damaged(message, budget.reason);
    jfs_reader again = {at, reader->at, 0};
    jfs_amqp value = jfs_take_amqp(&again);
    if (value.type == rules[section].type) sections[section] = (jfs_view){at, (uint64_t)(reader->at - at)};
    return 1;
}

/* The positions are those of the body file, which is parsed itself: only the copies count, and where its body
 * begins. */
static int take_cache(jfs_message *message, jfs_reader *reader, jfs_view *sections, int *rewritten,
                      uint32_t *body_at) {
    jfs_take(reader, 8);
    if (!take_cached(message, reader, JFS_SECTION_HEADER, sections)) return 0;
    jfs_take(reader, 12);
    if (!take_cached(message, reader, JFS_SECTION_MESSAGE_ANNOTATIONS, sections)) return 0;
    jfs_take(reader, 4);
    if (!take_cached(message, reader, JFS_SECTION_PROPERTIES, sections)) return 0;
    jfs_take(reader, 4);
    *body_at = jfs_take32(reader);
    if (!take_cached(message, reader, JFS_SECTION_APPLICATION_PROPERTIES, sections)) return 0;
    if (reader->bad) return jfs_damaged(message, "the record of a large message ends too early");
    if (jfs_left(reader) >= 8) {
        message->expiration_ms = (int64_t)jfs_take64(reader);
        message->has_expiration = 1;
    }
    if (jfs_left(reader) >= 1) *rewritten = jfs_take8(reader) != 0;
    if (jfs_left(reader) > 0) message->irregular = 1;
    return 1;
}

void jfs_amqp_large_parse(jfs_message *message, jfs_reader *reader) {
    static const int cached[] = {JFS_SECTION_HEADER, JFS_SECTION_MESSAGE_ANNOTATIONS, JFS_SECTION_PROPERTIES,
                                 JFS_SECTION_APPLICATION_PROPERTIES};
    jfs_view sections[JFS_SECTIONS] = {{NULL, 0}};
    int rewritten = 0;
    uint32_t body_at = 0;
    message->protocol = JFS_AMQP;
    message->is_large = 1;
    take_front(message, reader);
    if (reader->bad) {
        jfs_damaged(message, "the record of a large message ends too early");
        return;
    }
    if (!take_extra(message, reader) || !take_cache(message, reader, sections, &rewritten, &body_at)) return;
    /* A file that ends where two sections meet decodes well, an empty one too: its length has to tell. */
    const int cut =
        message->large.at != NULL && !rewritten && body_at <= INT32_MAX && message->large.bytes <= body_at;
    if (message->large.at == NULL || cut) {
        memcpy(message->sections, sections, sizeof sections);
        note_headers(message);
        jfs_incomplete(message,
                       cut ? "the large body's file ends before its body" : "the large body's file is missing");
        return;
    }
    parse_sections(message, message->large);
    /* The broker changes annotations and properties of a large message in the record alone, and says so there. */
    for (size_t i = 0; rewritten && i < sizeof cached / sizeof cached[0]; i++)
        message->sections[cached[i]] = sections[cached[i]];
    note_headers(message);
}
