/* Messages as columns: rows of what is of one size, headers and bodies. Properties: columns_properties.c. */
#include "columns.h"

#include <stdlib.h>

#include "amqp.h"
#include "envelope.h"
#include "jfs_guard.h"

enum { FIELD_MESSAGE_ID = 0, FIELD_GROUP_ID = 10, UUID_CHARS = 36 };

static int wants(uint32_t wanted, int column) { return (wanted >> column & 1) != 0; }

static uint16_t type_of(const jfs_message *message) {
    if (message->protocol == JFS_CORE) return message->type;
    switch (message->body_kind) {
    case JFS_BODY_DATA: return JFS_ROW_AMQP_TYPES;
    case JFS_BODY_VALUE: return JFS_ROW_AMQP_TYPES + 1;
    case JFS_BODY_SEQUENCE: return JFS_ROW_AMQP_TYPES + 2;
    default: return JFS_ROW_AMQP_TYPES + 3;
    }
}

static jfs_status put_row(const jfs_message *message, uint32_t properties, jfs_columns *out) {
    if (out->count == out->row_capacity) {
        const uint32_t capacity = out->row_capacity == 0 ? 256 : 2 * out->row_capacity;
        jfs_row *const rows = realloc(out->rows, capacity * sizeof *rows);
        if (rows == NULL) return JFS_NO_MEMORY;
        out->rows = rows;
        out->row_capacity = capacity;
    }
    const int has_header = (message->has & JFS_HAS_HEADER) != 0;
    const int has_type = has_header && (message->protocol == JFS_CORE || (message->has & JFS_HAS_BODY) != 0);
    out->rows[out->count++] = (jfs_row){
        .id = message->id,
        .timestamp_ms = message->timestamp_ms,
        .expiration_ms = message->expiration_ms,
        .scheduled_ms = message->scheduled_ms,
        .properties = properties,
        .type = type_of(message),
        .priority = (int8_t)message->priority,
        .flags =
            (uint8_t)((message->durable ? JFS_ROW_DURABLE : 0) | (message->is_large ? JFS_ROW_LARGE : 0) |
                      (message->protocol == JFS_AMQP ? JFS_ROW_AMQP : 0) |
                      ((message->has & JFS_HAS_ID) ? JFS_ROW_HAS_ID : 0) | (has_header ? JFS_ROW_HAS_HEADER : 0) |
                      (has_type ? JFS_ROW_HAS_TYPE : 0)),
    };
    return JFS_OK;
}

static jfs_status put_uuid(jfs_column *column, const uint8_t *bytes) {
    const jfs_status status = jfs_column_room(column, UUID_CHARS);
    if (status != JFS_OK) return status;
    jfs_sink sink = jfs_column_sink(column);
    jfs_put_uuid(&sink, bytes);
    jfs_column_end(column, sink.pos);
    return JFS_OK;
}

/* The field as the envelope has it, without quotes: text as it is, numbers in decimal, bytes as base64. */
static jfs_status put_amqp_field(jfs_column *column, const jfs_message *message, uint32_t field) {
    jfs_amqp properties = jfs_amqp_section(message, JFS_SECTION_PROPERTIES);
    jfs_amqp value = jfs_amqp_field(&properties, field);
    if (field == FIELD_GROUP_ID && value.type != JFS_A_STRING) return jfs_column_null(column);
    switch (value.type) {
    case JFS_A_STRING:
    case JFS_A_ULONG:
    case JFS_A_UUID:
    case JFS_A_BINARY: return jfs_column_amqp(column, &value);
    default: return jfs_column_null(column);
    }
}

static jfs_status put_ids(const jfs_message *message, uint32_t wanted, jfs_column *columns) {
    const int amqp = message->protocol == JFS_AMQP, known = (message->has & JFS_HAS_HEADER) != 0;
    const jfs_view none = {NULL, 0};
    jfs_status status = JFS_OK;
    if (wants(wanted, JFS_COLUMN_ADDRESS)) status = jfs_column_text16(&columns[JFS_COLUMN_ADDRESS], message->address);
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_USER_ID)) {
        jfs_column *const column = &columns[JFS_COLUMN_USER_ID];
        status = amqp                           ? put_amqp_field(column, message, FIELD_MESSAGE_ID)
                 : message->user_id.at != NULL ? put_uuid(column, message->user_id.at)
                                               : jfs_column_null(column);
    }
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_GROUP)) {
        jfs_column *const column = &columns[JFS_COLUMN_GROUP];
        status = amqp && known ? put_amqp_field(column, message, FIELD_GROUP_ID)
                               : jfs_column_text16(column, known ? message->group : none);
    }
    const int raw = message->duplicate_raw != 0, duplicate = known && !amqp && message->duplicate.at != NULL;
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_DUPLICATE))
        status = jfs_column_text16(&columns[JFS_COLUMN_DUPLICATE], duplicate && !raw ? message->duplicate : none);
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_DUPLICATE_BYTES)) {
        jfs_column *const column = &columns[JFS_COLUMN_DUPLICATE_BYTES];
        status = duplicate && raw ? jfs_column_bytes(column, message->duplicate) : jfs_column_null(column);
    }
    return status;
}

static jfs_status put_damage(const jfs_message *message, uint32_t wanted, jfs_column *columns) {
    jfs_status status = JFS_OK;
    if (wants(wanted, JFS_COLUMN_DAMAGE)) {
        const char *const damage = message->damage;
        jfs_column *const column = &columns[JFS_COLUMN_DAMAGE];
        status = damage == NULL ? jfs_column_null(column)
                                : jfs_column_bytes(column, (jfs_view){(const uint8_t *)damage, strlen(damage)});
    }
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_RAW)) {
        jfs_column *const column = &columns[JFS_COLUMN_RAW];
        status = message->undecoded || message->irregular ? jfs_column_bytes(column, message->payload)
                                                          : jfs_column_null(column);
    }
    return status;
}

static jfs_status put_file(jfs_column *column, const jfs_message *message) {
    jfs_sink sink;
    jfs_sink_measure(&sink);
    jfs_put_body_file(&sink, message);
    const uint64_t bytes = sink.pos;
    const jfs_status status = jfs_column_room(column, bytes);
    if (status != JFS_OK) return status;
    sink = jfs_column_sink(column);
    jfs_put_body_file(&sink, message);
    if (sink.pos != bytes) return JFS_MALFORMED; /* it changed meanwhile */
    jfs_column_end(column, bytes);
    return JFS_OK;
}

/* Whether the body is bytes, and not text of some kind. */
static int is_bytes(const jfs_message *message) {
    switch (message->body_kind) {
    case JFS_BODY_RAW:
    case JFS_BODY_OBJECT:
    case JFS_BODY_DATA: return 1;
    case JFS_BODY_VALUE: return jfs_amqp_section(message, JFS_SECTION_VALUE).type == JFS_A_BINARY;
    default: return 0;
    }
}

static jfs_status put_text(jfs_column *column, const jfs_message *message) {
    if (message->body_kind == JFS_BODY_TEXT) return jfs_column_text16(column, message->body);
    if (message->body_kind == JFS_BODY_VALUE) {
        jfs_amqp value = jfs_amqp_section(message, JFS_SECTION_VALUE);
        if (value.type == JFS_A_STRING) return jfs_column_text8(column, value.bytes);
    }
    return put_file(column, message);
}

static jfs_status put_bodies(const jfs_message *message, uint32_t wanted, jfs_column *columns) {
    const int there = (message->has & JFS_HAS_BODY) != 0 && message->body_kind != JFS_BODY_NONE &&
                      message->body_kind != JFS_BODY_NULL;
    const int bytes = there && is_bytes(message);
    jfs_status status = JFS_OK;
    if (wants(wanted, JFS_COLUMN_BODY)) {
        jfs_column *const column = &columns[JFS_COLUMN_BODY];
        status = there && !bytes ? put_text(column, message) : jfs_column_null(column);
    }
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_BODY_BYTES)) {
        jfs_column *const column = &columns[JFS_COLUMN_BODY_BYTES];
        status = bytes ? put_file(column, message) : jfs_column_null(column);
    }
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_BODY_FILE)) {
        jfs_column *const column = &columns[JFS_COLUMN_BODY_FILE];
        status = there ? put_file(column, message) : jfs_column_null(column);
    }
    return status;
}

static jfs_status put_message(const jfs_message *message, uint32_t wanted, jfs_columns *out) {
    uint32_t properties = 0;
    jfs_status status = put_ids(message, wanted, out->columns);
    if (status == JFS_OK) status = put_bodies(message, wanted, out->columns);
    if (status == JFS_OK) status = put_damage(message, wanted, out->columns);
    if (status == JFS_OK && wants(wanted, JFS_COLUMN_KEYS)) status = jfs_put_property_rows(message, out, &properties);
    return status == JFS_OK ? put_row(message, properties, out) : status;
}

static uint64_t bytes_held(const jfs_columns *columns) {
    uint64_t bytes = 0;
    for (int i = 0; i < JFS_COLUMNS; i++) bytes += columns->columns[i].data_bytes;
    return bytes;
}

/* A message that did not fit leaves nothing behind. */
static void take_back(jfs_column *column, uint32_t rows) {
    while (column->rows > rows) {
        const uint8_t bit = (uint8_t)(1u << (--column->rows % 8));
        if (!(column->valid[column->rows / 8] & bit)) column->nulls--;
        column->valid[column->rows / 8] &= (uint8_t)~bit;
    }
    if (column->offsets != NULL) column->data_bytes = (uint32_t)column->offsets[column->rows];
}

static void take_message_back(jfs_columns *out, const uint32_t *rows, uint32_t kinds) {
    for (int i = 0; i < JFS_COLUMNS; i++) take_back(&out->columns[i], rows[i]);
    out->kind_count = kinds;
}

typedef struct {
    const jfs_line *lines;
    uint64_t count;
    uint32_t wanted;
    uint64_t bytes_max;
    jfs_columns *out;
    jfs_arena arena;
} columns_job;

/* Header and properties stand at the end of most messages, far from where the last one was read. */
static void fetch_ahead(const columns_job *job, uint64_t index) {
    enum { AHEAD = 8, CACHE_LINE_BYTES = 64, TAIL_BYTES = 320 };
    if (index + AHEAD >= job->count) return;
    const jfs_line *const line = &job->lines[index + AHEAD];
    const uint64_t bytes = line->payload_bytes, tail = bytes < TAIL_BYTES ? bytes : TAIL_BYTES;
    __builtin_prefetch(line->payload);
    for (uint64_t back = 1; back <= tail; back += CACHE_LINE_BYTES) __builtin_prefetch(line->payload + bytes - back);
}

static jfs_status columns_body(void *context) {
    columns_job *job = context;
    jfs_columns *const out = job->out;
    while (out->count < job->count) {
        jfs_message message;
        uint32_t rows[JFS_COLUMNS];
        const uint32_t kinds = out->kind_count;
        fetch_ahead(job, out->count);
        jfs_message_parse(&job->lines[out->count], &job->arena, &message);
        if (job->wanted == 0) { /* no column grows, so that none is looked at */
            const jfs_status status = put_row(&message, 0, out);
            if (status != JFS_OK) return status;
            continue;
        }
        for (int i = 0; i < JFS_COLUMNS; i++) rows[i] = out->columns[i].rows;
        const jfs_status status = put_message(&message, job->wanted, out);
        const int full = status == JFS_RANGE || (status == JFS_OK && bytes_held(out) > job->bytes_max);
        if (status != JFS_OK) {
            take_message_back(out, rows, kinds);
            return full && out->count > 0 ? JFS_OK : status;
        }
        if (full && out->count > 1) {
            take_message_back(out, rows, kinds);
            out->count--;
            return JFS_OK;
        }
    }
    return JFS_OK;
}

jfs_status jfs_columns_read(const jfs_line *lines, uint64_t count, uint32_t wanted, uint64_t bytes_max,
                            jfs_columns *out) {
    columns_job job = {lines, count, wanted, bytes_max, out, {NULL, 0, NULL}};
    const jfs_status status = jfs_guarded(columns_body, &job);
    jfs_arena_free(&job.arena);
    return status;
}

void jfs_columns_free(jfs_columns *columns) {
    for (int i = 0; i < JFS_COLUMNS; i++) jfs_column_free(&columns->columns[i]);
    free(columns->rows);
    free(columns->kinds);
}
