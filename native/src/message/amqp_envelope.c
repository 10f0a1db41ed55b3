/* What an envelope says of an AMQP message: the common keys taken from its sections, and the sections themselves. */
#include "amqp.h"
#include "envelope.h"
#include "text.h"

enum { FIELD_MESSAGE_ID = 0, FIELD_GROUP_ID = 10 };

static int is_id(const jfs_amqp *value) {
    return value->type == JFS_A_STRING || value->type == JFS_A_ULONG || value->type == JFS_A_UUID ||
           value->type == JFS_A_BINARY;
}

void jfs_put_amqp_user_id(jfs_sink *sink, const jfs_message *message) {
    jfs_amqp properties = jfs_amqp_section(message, JFS_SECTION_PROPERTIES);
    jfs_amqp id = jfs_amqp_field(&properties, FIELD_MESSAGE_ID);
    if (!is_id(&id)) return;
    JFS_PUT(sink, ",\"userId\":");
    jfs_put_amqp_text(sink, &id);
}

void jfs_put_amqp_group(jfs_sink *sink, const jfs_message *message) {
    jfs_amqp properties = jfs_amqp_section(message, JFS_SECTION_PROPERTIES);
    jfs_amqp group = jfs_amqp_field(&properties, FIELD_GROUP_ID);
    if (group.type != JFS_A_STRING) return;
    JFS_PUT(sink, ",\"groupId\":");
    jfs_put_string8(sink, group.bytes);
}

/* Whether an entry stands in `properties` (types = 0) or `propertyTypes` (types = 1). Keys that are no text have no
 * place there. */
static int is_member(const jfs_amqp *key, const jfs_amqp *value, int types) {
    if (key->type != JFS_A_STRING && key->type != JFS_A_SYMBOL) return 0;
    return !types || (value->type != JFS_A_STRING && value->type != JFS_A_BOOLEAN && value->type != JFS_A_NULL);
}

static int has_members(const jfs_amqp *map, int types) {
    jfs_reader reader = jfs_reader_over(map->bytes);
    for (uint32_t i = 0; i + 1 < map->count; i += 2) {
        jfs_amqp key = jfs_take_amqp(&reader), value = jfs_take_amqp(&reader);
        if (is_member(&key, &value, types)) return 1;
    }
    return 0;
}

static void put_type_name(jfs_sink *sink, jfs_amqp_type type) {
    const char *name = jfs_amqp_type_name(type);
    jfs_put_byte(sink, '"');
    jfs_put(sink, name, strlen(name));
    jfs_put_byte(sink, '"');
}

static void put_members(jfs_sink *sink, const jfs_amqp *map, int types) {
    jfs_piece piece;
    if (!jfs_piece_begin(sink, &piece, map->bytes.at, map->bytes.bytes,
                         types ? JFS_PIECE_TYPES : JFS_PIECE_PROPERTIES))
        return;
    jfs_reader reader = jfs_reader_behind(map->bytes, piece.mark.source);
    uint64_t written = piece.mark.index;
    while (reader.at < reader.end) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - map->bytes.at), written);
        jfs_amqp key = jfs_take_amqp(&reader), value = jfs_take_amqp(&reader);
        if (reader.bad) return;
        if (!is_member(&key, &value, types)) continue;
        if (written++ > 0) jfs_put_byte(sink, ',');
        jfs_put_string8(sink, key.bytes);
        jfs_put_byte(sink, ':');
        if (types)
            put_type_name(sink, value.type);
        else
            jfs_put_amqp_plain(sink, &value);
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_piece_end(sink, &piece);
}

void jfs_put_amqp_properties(jfs_sink *sink, const jfs_message *message) {
    jfs_amqp map = jfs_amqp_section(message, JFS_SECTION_APPLICATION_PROPERTIES);
    if (map.type != JFS_A_MAP || !has_members(&map, 0)) return;
    JFS_PUT(sink, ",\"properties\":{");
    put_members(sink, &map, 0);
    jfs_put_byte(sink, '}');
    if (!has_members(&map, 1)) return;
    JFS_PUT(sink, ",\"propertyTypes\":{");
    put_members(sink, &map, 1);
    jfs_put_byte(sink, '}');
}

/*
 * Base64 of sections laid end to end: a group of three bytes may begin in one and end in another. A mark's index
 * holds the bytes of an open group: how many, then each.
 */
void jfs_put_data_base64(jfs_sink *sink, const jfs_message *message) {
    jfs_piece piece;
    const jfs_view body = message->body;
    if (!jfs_piece_begin(sink, &piece, body.at, body.bytes, JFS_PIECE_CHAIN)) return;
    uint8_t open[3] = {(uint8_t)(piece.mark.index >> 8), (uint8_t)(piece.mark.index >> 16), 0};
    uint64_t count = piece.mark.index & 3;
    jfs_reader reader = jfs_reader_behind(body, piece.mark.source);
    jfs_amqp section;
    for (;;) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - body.at),
                       count | ((uint64_t)open[0] << 8) | ((uint64_t)open[1] << 16));
        if (!jfs_next_body_section(&reader, &section)) break;
        jfs_view bytes = section.bytes;
        while (count > 0 && count < 3 && bytes.bytes > 0) {
            open[count++] = *bytes.at++;
            bytes.bytes--;
        }
        if (count == 3) {
            jfs_put_base64(sink, (jfs_view){open, 3});
            count = 0;
        }
        if (count == 0 && bytes.bytes > 0) {
            count = bytes.bytes % 3;
            bytes.bytes -= count;
            jfs_put_base64(sink, bytes);
            memcpy(open, bytes.at + bytes.bytes, count);
        }
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_put_base64(sink, (jfs_view){open, count});
    jfs_piece_end(sink, &piece);
}

void jfs_put_amqp_body(jfs_sink *sink, const jfs_message *message) {
    if (message->body_kind == JFS_BODY_DATA) {
        JFS_PUT(sink, ",\"body_base64\":\"");
        jfs_put_data_base64(sink, message);
        jfs_put_byte(sink, '"');
    } else if (message->body_kind == JFS_BODY_VALUE) {
        jfs_amqp value = jfs_amqp_section(message, JFS_SECTION_VALUE);
        if (value.type != JFS_A_STRING) return;
        JFS_PUT(sink, ",\"body\":");
        jfs_put_string8(sink, value.bytes);
    }
}

static const char *const header_names[] = {"durable", "priority", "ttl", "firstAcquirer", "deliveryCount"};
static const char *const property_names[] = {"messageId",     "userId",          "to",
                                             "subject",       "replyTo",         "correlationId",
                                             "contentType",   "contentEncoding", "absoluteExpiryTime",
                                             "creationTime",  "groupId",         "groupSequence",
                                             "replyToGroupId"};
static const jfs_amqp_type header_types[] = {JFS_A_BOOLEAN, JFS_A_UBYTE, JFS_A_UINT, JFS_A_BOOLEAN, JFS_A_UINT};

/* Plain in the header: the one type that the standard gives each field. */
static void put_header(jfs_sink *sink, const jfs_amqp *list) {
    uint32_t written = 0;
    jfs_put_byte(sink, '{');
    for (uint32_t i = 0; i < list->count && i < 5; i++) {
        jfs_amqp value = jfs_amqp_field(list, i);
        if (value.type == JFS_A_NULL) continue;
        if (i == 4 && value.type == JFS_A_UINT && value.number == 0) continue; /* as if it were absent */
        if (written++ > 0) jfs_put_byte(sink, ',');
        jfs_put_byte(sink, '"');
        jfs_put(sink, header_names[i], strlen(header_names[i]));
        JFS_PUT(sink, "\":");
        if (value.type == header_types[i])
            jfs_put_amqp_plain(sink, &value);
        else
            jfs_put_amqp(sink, &value);
    }
    jfs_put_byte(sink, '}');
}

static void put_properties(jfs_sink *sink, const jfs_amqp *list) {
    uint32_t written = 0;
    jfs_put_byte(sink, '{');
    for (uint32_t i = 0; i < list->count && i < 13; i++) {
        jfs_amqp value = jfs_amqp_field(list, i);
        if (value.type == JFS_A_NULL) continue;
        if (written++ > 0) jfs_put_byte(sink, ',');
        jfs_put_byte(sink, '"');
        jfs_put(sink, property_names[i], strlen(property_names[i]));
        JFS_PUT(sink, "\":");
        if (value.type == JFS_A_STRING || value.type == JFS_A_BOOLEAN)
            jfs_put_amqp_plain(sink, &value);
        else
            jfs_put_amqp(sink, &value);
    }
    jfs_put_byte(sink, '}');
}

void jfs_put_sequences(jfs_sink *sink, jfs_view body) {
    jfs_piece piece;
    jfs_amqp list;
    jfs_put_byte(sink, '[');
    if (jfs_piece_begin(sink, &piece, body.at, body.bytes, JFS_PIECE_SEQUENCES)) {
        jfs_reader reader = jfs_reader_behind(body, piece.mark.source);
        uint64_t index = piece.mark.index;
        for (;; index++) {
            jfs_piece_step(sink, &piece, (uint64_t)(reader.at - body.at), index);
            if (!jfs_next_body_section(&reader, &list)) break;
            if (index > 0) jfs_put_byte(sink, ',');
            jfs_put_byte(sink, '[');
            jfs_put_amqp_items(sink, &list);
            jfs_put_byte(sink, ']');
            if (jfs_full(sink)) {
                jfs_piece_stop(&piece);
                return;
            }
        }
        jfs_piece_end(sink, &piece);
    }
    jfs_put_byte(sink, ']');
}

static void put_lengths(jfs_sink *sink, jfs_view body) {
    jfs_piece piece;
    jfs_amqp section;
    if (!jfs_piece_begin(sink, &piece, body.at, body.bytes, JFS_PIECE_LENGTHS)) return;
    jfs_reader reader = jfs_reader_behind(body, piece.mark.source);
    for (uint64_t index = piece.mark.index;; index++) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - body.at), index);
        if (!jfs_next_body_section(&reader, &section)) break;
        if (index > 0) jfs_put_byte(sink, ',');
        jfs_put_unsigned(sink, section.bytes.bytes);
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_piece_end(sink, &piece);
}

/* The bytes themselves stand in body_base64; how they were cut into sections stands here. */
static void put_data(jfs_sink *sink, const jfs_message *message) {
    JFS_PUT(sink, "{\"section\":\"data\",\"sections\":");
    jfs_put_unsigned(sink, message->body_sections);
    JFS_PUT(sink, ",\"size\":");
    jfs_put_unsigned(sink, message->data_bytes);
    if (message->body_sections > 1) {
        JFS_PUT(sink, ",\"lengths\":[");
        put_lengths(sink, message->body);
        jfs_put_byte(sink, ']');
    }
    jfs_put_byte(sink, '}');
}

static void put_body(jfs_sink *sink, const jfs_message *message) {
    JFS_PUT(sink, "\"body\":");
    if (message->body_kind == JFS_BODY_DATA) {
        put_data(sink, message);
    } else if (message->body_kind == JFS_BODY_VALUE) {
        jfs_amqp value = jfs_amqp_section(message, JFS_SECTION_VALUE);
        JFS_PUT(sink, "{\"section\":\"value\",\"value\":");
        jfs_put_amqp(sink, &value);
        jfs_put_byte(sink, '}');
    } else if (message->body_kind == JFS_BODY_SEQUENCE) {
        JFS_PUT(sink, "{\"section\":\"sequence\",\"sequences\":");
        jfs_put_sequences(sink, message->body);
        jfs_put_byte(sink, '}');
    } else {
        JFS_PUT(sink, "{\"section\":null}");
    }
}

static int put_section(jfs_sink *sink, const jfs_message *message, int section, const char *name, int written) {
    jfs_amqp value = jfs_amqp_section(message, section);
    if (value.type == JFS_A_NULL) return written;
    if (written > 0) jfs_put_byte(sink, ',');
    jfs_put_byte(sink, '"');
    jfs_put(sink, name, strlen(name));
    JFS_PUT(sink, "\":");
    if (section == JFS_SECTION_HEADER)
        put_header(sink, &value);
    else if (section == JFS_SECTION_PROPERTIES)
        put_properties(sink, &value);
    else
        jfs_put_amqp_pairs(sink, &value);
    return written + 1;
}

void jfs_put_amqp_object(jfs_sink *sink, const jfs_message *message) {
    int written = 0;
    JFS_PUT(sink, ",\"amqp\":{");
    written = put_section(sink, message, JFS_SECTION_HEADER, "header", written);
    written = put_section(sink, message, JFS_SECTION_DELIVERY_ANNOTATIONS, "deliveryAnnotations", written);
    written = put_section(sink, message, JFS_SECTION_MESSAGE_ANNOTATIONS, "messageAnnotations", written);
    written = put_section(sink, message, JFS_SECTION_PROPERTIES, "properties", written);
    written = put_section(sink, message, JFS_SECTION_APPLICATION_PROPERTIES, "applicationProperties", written);
    if (message->has & JFS_HAS_BODY) {
        if (written++ > 0) jfs_put_byte(sink, ',');
        put_body(sink, message);
    }
    put_section(sink, message, JFS_SECTION_FOOTER, "footer", written);
    jfs_put_byte(sink, '}');
}
