#include "jfs_xml.h"

#include <inttypes.h>
#include <stdio.h>

#include "jfs_guard.h"
#include "properties.h"

enum { PERSISTER_CORE = 1, BODY_OFFSET = 13, USER_ID_BYTES = 16, TEXT_BYTES_MAX = 6, NUMBER_BYTES_MAX = 32 };

typedef struct {
    uint8_t *at;
    const uint8_t *end;
    int bad;
} writer;

static void put(writer *out, const void *from, uint64_t bytes) {
    if (out->bad || bytes > (uint64_t)(out->end - out->at)) {
        out->bad = 1;
    } else if (bytes > 0) {
        memcpy(out->at, from, bytes);
        out->at += bytes;
    }
}

static void put_said(writer *out, const char *text) { put(out, text, strlen(text)); }

static void put_integer(writer *out, int64_t value) {
    char digits[NUMBER_BYTES_MAX];
    put(out, digits, (uint64_t)snprintf(digits, sizeof digits, "%" PRId64, value));
}

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

/* UTF-16, low byte first, as the inside of an attribute. */
static void put_text(writer *out, jfs_view text) {
    if (text.bytes % 2 != 0) out->bad = 1;
    for (uint64_t i = 0; i < text.bytes && !out->bad; i += 2) {
        uint32_t unit = text.at[i] | (uint32_t)text.at[i + 1] << 8;
        const char *const said = escaped(unit);
        if (said != NULL) {
            put_said(out, said);
            continue;
        }
        if (out->end - out->at < TEXT_BYTES_MAX || unit < 0x20 || unit >= 0xfffe) {
            out->bad = 1;
        } else if (unit < 0x80) {
            *out->at++ = (uint8_t)unit;
        } else if (unit < 0x800) {
            *out->at++ = (uint8_t)(0xc0 | unit >> 6);
            *out->at++ = (uint8_t)(0x80 | (unit & 63));
        } else if (unit < 0xd800 || unit > 0xdfff) {
            out->at = put_point(out->at, unit);
        } else if (unit > 0xdbff || text.bytes - i < 4) {
            out->bad = 1; /* half of a pair */
        } else {
            i += 2;
            const uint32_t low = text.at[i] | (uint32_t)text.at[i + 1] << 8;
            if ((low & 0xfc00) != 0xdc00) out->bad = 1;
            else out->at = put_point(out->at, 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff)));
        }
    }
}

static void put_property(writer *out, const jfs_property *property) {
    static const char *const types[] = {
        [JFS_CODE_NULL] = "bytes", [JFS_CODE_BOOLEAN] = "boolean", [JFS_CODE_BYTE] = "byte",
        [JFS_CODE_SHORT] = "short", [JFS_CODE_INT] = "integer", [JFS_CODE_LONG] = "long",
        [JFS_CODE_STRING] = "simple-string", [JFS_CODE_CHAR] = NULL,
    };
    const jfs_value *const value = &property->value;
    if (value->code > JFS_CODE_CHAR || types[value->code] == NULL) {
        out->bad = 1;
        return;
    }
    put_said(out, "\n            <property name=\"");
    put_text(out, property->key);
    put_said(out, "\" value=\"");
    switch (value->code) {
    case JFS_CODE_NULL: put_said(out, "_AMQ_NULL"); break;
    case JFS_CODE_BOOLEAN: put_said(out, value->bytes.at[0] != 0 ? "true" : "false"); break;
    case JFS_CODE_STRING: put_text(out, value->bytes); break;
    default: put_integer(out, jfs_value_integer(value));
    }
    put_said(out, "\" type=\"");
    put_said(out, types[value->code]);
    put_said(out, "\"/>");
}

/* As the broker prints it: version 1 and the standard variant, whatever the bytes say. */
static void put_user_id(writer *out, const uint8_t *id) {
    char said[3];
    put_said(out, " user-id=\"");
    for (int i = 0; i < USER_ID_BYTES; i++) {
        const uint8_t byte = i == 6 ? (id[i] & 0x0f) | 0x10 : i == 8 ? (id[i] & 0x3f) | 0x80 : id[i];
        if (i == 4 || i == 6 || i == 8 || i == 10) put(out, "-", 1);
        put(out, said, (uint64_t)snprintf(said, sizeof said, "%02x", byte));
    }
    put(out, "\"", 1);
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

/* Base64 in the alphabet of URLs. */
static void put_body(writer *out, jfs_view body) {
    put_said(out, "         <body>\n            <![CDATA[");
    if (out->bad || jfs_base64_bytes(body.bytes) > (uint64_t)(out->end - out->at)) {
        out->bad = 1;
        return;
    }
    jfs_sink sink = {.out = out->at, .to = UINT64_MAX};
    jfs_put_base64(&sink, body);
    for (uint64_t i = 0; i < sink.pos; i++, out->at++)
        *out->at = *out->at == '+' ? '-' : *out->at == '/' ? '_' : *out->at;
    put_said(out, "]]>\n         </body>\n      </message>");
}

typedef struct {
    jfs_view payload, queues;
    int64_t id;
    writer out;
} job;

static jfs_status message_body(void *context) {
    job *j = context;
    writer *const out = &j->out;
    jfs_reader reader = jfs_reader_over(j->payload);
    jfs_entries properties;
    const char *reason;
    uint8_t irregular = 0;
    int null;
    out->bad = jfs_take8(&reader) != PERSISTER_CORE;
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null);
    const uint32_t size = jfs_take32(&reader);
    if (reader.bad || size != jfs_left(&reader)) out->bad = 1;
    const uint32_t body_end = jfs_take32(&reader);
    if (body_end < BODY_OFFSET) reader.bad = 1;
    const jfs_view body = jfs_take(&reader, (uint64_t)body_end - BODY_OFFSET);
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null);
    const uint8_t has_user_id = jfs_take8(&reader);
    const jfs_view user_id = has_user_id == 0 ? (jfs_view){NULL, 0} : jfs_take(&reader, USER_ID_BYTES);
    const uint8_t type = jfs_take8(&reader);
    jfs_take8(&reader); /* durable */
    const int64_t expiration_ms = (int64_t)jfs_take64(&reader), timestamp_ms = (int64_t)jfs_take64(&reader);
    const int8_t priority = (int8_t)jfs_take8(&reader);
    if (reader.bad || !jfs_take_properties(&reader, &properties, &reason, &irregular)) out->bad = 1;
    if (irregular || has_user_id > 1 || jfs_left(&reader) > 0) out->bad = 1;
    if (out->bad) return JFS_OK;
    put_said(out, "\n      <message id=\"");
    put_integer(out, j->id);
    put_said(out, "\" priority=\"");
    put_integer(out, priority);
    put_said(out, "\" expiration=\"");
    put_integer(out, expiration_ms);
    put_said(out, "\" timestamp=\"");
    put_integer(out, timestamp_ms);
    put_said(out, "\" type=\"");
    put_said(out, type_name(type));
    put(out, "\"", 1);
    if (user_id.at != NULL) put_user_id(out, user_id.at);
    put_said(out, ">\n         <properties>");
    reader = jfs_reader_over(properties.bytes);
    for (uint32_t i = 0; i < properties.count && !out->bad; i++) {
        const jfs_property property = jfs_next_property(&reader);
        put_property(out, &property);
    }
    put_said(out, "\n         </properties>\n         <queues>\n");
    put(out, j->queues.at, j->queues.bytes);
    put_said(out, "         </queues>\n");
    put_body(out, body);
    return JFS_OK;
}

jfs_status jfs_xml_message(const uint8_t *payload, uint64_t payload_bytes, int64_t id, const uint8_t *queues,
                           uint64_t queues_bytes, uint8_t *out, uint64_t capacity, uint64_t *written) {
    job j = {{payload, payload_bytes}, {queues, queues_bytes}, id, {out, out + capacity, 0}};
    const jfs_status status = jfs_guarded(message_body, &j);
    *written = status == JFS_OK && !j.out.bad ? (uint64_t)(j.out.at - out) : 0;
    return status;
}
