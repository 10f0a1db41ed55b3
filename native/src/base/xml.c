#include "jfs_xml.h"

#include "jfs_guard.h"
#include "properties.h"

enum { PERSISTER_CORE = 1, BODY_OFFSET = 13, USER_ID_BYTES = 16, ESCAPE_BYTES_MAX = 6, CHUNK_BYTES = 128 };

/* How a character of ASCII stands in an attribute: its name, NULL where it stands for itself. */
static const char *escaped(uint32_t unit) {
    switch (unit) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\n': return "&#10;";
    case '\r': return "&#13;";
    case '\t': return "&#9;";
    default: return NULL;
    }
}

static uint8_t *put_point(uint8_t *to, uint32_t point) {
    if (point >= 0x10000) {
        *to++ = (uint8_t)(0xf0 | point >> 18);
        *to++ = (uint8_t)(0x80 | (point >> 12 & 63));
    } else {
        *to++ = (uint8_t)(0xe0 | point >> 12);
    }
    *to++ = (uint8_t)(0x80 | (point >> 6 & 63));
    *to++ = (uint8_t)(0x80 | (point & 63));
    return to;
}

/* UTF-16, low byte first, as the inside of an attribute. 0: XML cannot have it. */
static int put_text(jfs_sink *sink, jfs_view text) {
    uint8_t chunk[CHUNK_BYTES], *to = chunk;
    if (text.bytes % 2 != 0) return 0;
    for (uint64_t i = 0; i < text.bytes; i += 2) {
        const uint32_t unit = text.at[i] | (uint32_t)text.at[i + 1] << 8;
        if (chunk + sizeof chunk - to < ESCAPE_BYTES_MAX) {
            jfs_put(sink, chunk, (size_t)(to - chunk));
            to = chunk;
        }
        if (unit < 0x80) {
            const char *const name = escaped(unit);
            if (name != NULL) {
                const size_t length = strlen(name);
                memcpy(to, name, length);
                to += length;
            } else if (unit < 0x20) {
                return 0;
            } else {
                *to++ = (uint8_t)unit;
            }
        } else if (unit < 0x800) {
            *to++ = (uint8_t)(0xc0 | unit >> 6);
            *to++ = (uint8_t)(0x80 | (unit & 63));
        } else if (unit < 0xd800 || unit > 0xdfff) {
            if (unit >= 0xfffe) return 0;
            to = put_point(to, unit);
        } else {
            if (unit > 0xdbff || text.bytes - i < 4) return 0; /* half of a pair */
            i += 2;
            const uint32_t low = text.at[i] | (uint32_t)text.at[i + 1] << 8;
            if ((low & 0xfc00) != 0xdc00) return 0;
            to = put_point(to, 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff)));
        }
    }
    jfs_put(sink, chunk, (size_t)(to - chunk));
    return 1;
}

static int put_property(jfs_sink *sink, const jfs_property *property) {
    static const char *const types[] = {
        [JFS_CODE_NULL] = "bytes", [JFS_CODE_BOOLEAN] = "boolean", [JFS_CODE_BYTE] = "byte",
        [JFS_CODE_SHORT] = "short", [JFS_CODE_INT] = "integer", [JFS_CODE_LONG] = "long",
        [JFS_CODE_STRING] = "simple-string", [JFS_CODE_CHAR] = NULL,
    };
    const jfs_value *const value = &property->value;
    int said = 1;
    if (value->code > JFS_CODE_CHAR || types[value->code] == NULL) return 0;
    JFS_PUT(sink, "\n            <property name=\"");
    if (!put_text(sink, property->key)) return 0;
    JFS_PUT(sink, "\" value=\"");
    switch (value->code) {
    case JFS_CODE_NULL: JFS_PUT(sink, "_AMQ_NULL"); break;
    case JFS_CODE_BOOLEAN: jfs_put_bool(sink, value->bytes.at[0] != 0); break;
    case JFS_CODE_STRING: said = put_text(sink, value->bytes); break;
    default: jfs_put_signed(sink, jfs_value_integer(value));
    }
    JFS_PUT(sink, "\" type=\"");
    jfs_put(sink, types[value->code], strlen(types[value->code]));
    JFS_PUT(sink, "\"/>");
    return said;
}

/* As the broker prints it: version 1 and the standard variant, whatever the bytes say. */
static void put_user_id(jfs_sink *sink, const uint8_t *id) {
    uint8_t said[USER_ID_BYTES];
    memcpy(said, id, sizeof said);
    said[6] = (said[6] & 0x0f) | 0x10;
    said[8] = (said[8] & 0x3f) | 0x80;
    JFS_PUT(sink, " user-id=\"");
    jfs_put_uuid(sink, said);
    JFS_PUT(sink, "\"");
}

static const char *type_name(uint8_t type) {
    switch (type) {
    case JFS_TYPE_OBJECT: return "object";
    case JFS_TYPE_TEXT: return "text";
    case JFS_TYPE_BYTES: return "bytes";
    case JFS_TYPE_MAP: return "map";
    case JFS_TYPE_STREAM: return "stream";
    default: return "default";
    }
}

/* What an element is made of. */
typedef struct {
    jfs_view body, user_id;
    jfs_entries properties;
    int64_t expiration_ms, timestamp_ms;
    uint8_t type;
    int8_t priority;
} usual;

static int take_usual(jfs_view payload, usual *out) {
    jfs_reader reader = jfs_reader_over(payload);
    const char *reason;
    uint8_t irregular = 0;
    int null;
    if (jfs_take8(&reader) != PERSISTER_CORE) return 0;
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null);
    const uint32_t size = jfs_take32(&reader);
    if (reader.bad || size != jfs_left(&reader)) return 0;
    const uint32_t body_end = jfs_take32(&reader);
    if (body_end < BODY_OFFSET) return 0;
    out->body = jfs_take(&reader, (uint64_t)body_end - BODY_OFFSET);
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null);
    const uint8_t has_user_id = jfs_take8(&reader);
    out->user_id = has_user_id == 0 ? (jfs_view){NULL, 0} : jfs_take(&reader, USER_ID_BYTES);
    out->type = jfs_take8(&reader);
    jfs_take8(&reader); /* durable */
    out->expiration_ms = (int64_t)jfs_take64(&reader);
    out->timestamp_ms = (int64_t)jfs_take64(&reader);
    out->priority = (int8_t)jfs_take8(&reader);
    if (reader.bad || !jfs_take_properties(&reader, &out->properties, &reason, &irregular)) return 0;
    return !irregular && has_user_id <= 1 && jfs_left(&reader) == 0;
}

/* 0: it is not usual. That there was no room says the sink. */
static int put_message(jfs_sink *sink, jfs_view payload, int64_t id, jfs_view queues) {
    usual message;
    if (!take_usual(payload, &message)) return 0;
    const char *const type = type_name(message.type);
    JFS_PUT(sink, "\n      <message id=\"");
    jfs_put_signed(sink, id);
    JFS_PUT(sink, "\" priority=\"");
    jfs_put_signed(sink, message.priority);
    JFS_PUT(sink, "\" expiration=\"");
    jfs_put_signed(sink, message.expiration_ms);
    JFS_PUT(sink, "\" timestamp=\"");
    jfs_put_signed(sink, message.timestamp_ms);
    JFS_PUT(sink, "\" type=\"");
    jfs_put(sink, type, strlen(type));
    JFS_PUT(sink, "\"");
    if (message.user_id.at != NULL) put_user_id(sink, message.user_id.at);
    JFS_PUT(sink, ">\n         <properties>");
    jfs_reader reader = jfs_reader_over(message.properties.bytes);
    for (uint32_t i = 0; i < message.properties.count && !jfs_full(sink); i++) {
        const jfs_property property = jfs_next_property(&reader);
        if (!put_property(sink, &property)) return 0;
    }
    JFS_PUT(sink, "\n         </properties>\n         <queues>\n");
    jfs_put(sink, queues.at, queues.bytes);
    JFS_PUT(sink, "         </queues>\n         <body>\n            <![CDATA[");
    if (jfs_full(sink) || jfs_base64_bytes(message.body.bytes) > sink->to - sink->pos) {
        sink->pos = sink->to;
        return 1;
    }
    sink->pos += jfs_base64_of_urls(message.body, sink->out + sink->pos);
    JFS_PUT(sink, "]]>\n         </body>\n      </message>");
    return 1;
}

typedef struct {
    const jfs_xml_messages *messages;
    uint64_t *next;
    jfs_sink sink;
} job;

static jfs_status elements_body(void *context) {
    job *const j = context;
    const jfs_xml_messages *const all = j->messages;
    for (; *j->next < all->count; ++*j->next) {
        const uint64_t begin = j->sink.pos, i = *j->next;
        const jfs_line *const line = &all->lines[i];
        const int32_t text = all->numbers == NULL ? 0 : all->numbers[i];
        if (text == JFS_XML_LEFT_OUT) continue;
        const jfs_view queues = {all->texts + all->starts[text], all->starts[text + 1] - all->starts[text]};
        if (line->source != JFS_SOURCE_PERSISTER ||
            !put_message(&j->sink, (jfs_view){line->payload, line->payload_bytes}, all->ids[i], queues) ||
            jfs_full(&j->sink)) {
            j->sink.pos = begin;
            return JFS_OK;
        }
    }
    return JFS_OK;
}

jfs_status jfs_xml_elements(const jfs_xml_messages *messages, uint64_t *next, uint8_t *out, uint64_t capacity,
                            uint64_t *written) {
    job j = {messages, next, {.out = out, .to = capacity}};
    const jfs_status status = jfs_guarded(elements_body, &j);
    *written = status == JFS_OK ? j.sink.pos : 0;
    return status;
}
