/* Properties as rows: key, type and value as text. */
#include <stdlib.h>

#include "columns.h"
#include "properties.h"

static jfs_status put_kind(jfs_columns *out, uint8_t kind) {
    if (out->kind_count == out->kind_capacity) {
        const uint32_t capacity = out->kind_capacity == 0 ? 1024 : 2 * out->kind_capacity;
        uint8_t *const kinds = realloc(out->kinds, capacity);
        if (kinds == NULL) return JFS_NO_MEMORY;
        out->kinds = kinds;
        out->kind_capacity = capacity;
    }
    out->kinds[out->kind_count++] = kind;
    return JFS_OK;
}

/* What was written behind the last row, without the quotes that JSON puts around it. */
static void end_unquoted(jfs_column *column, uint64_t bytes) {
    uint8_t *const at = column->data + column->data_bytes;
    if (bytes >= 2 && at[0] == '"') {
        bytes -= 2;
        memmove(at, at + 1, bytes);
    }
    jfs_column_end(column, bytes);
}

jfs_status jfs_column_amqp(jfs_column *column, const jfs_amqp *value) {
    if (value->type == JFS_A_NULL) return jfs_column_null(column);
    if (value->type == JFS_A_STRING || value->type == JFS_A_SYMBOL) return jfs_column_text8(column, value->bytes);
    if (value->type == JFS_A_CHAR) {
        const uint32_t point = (uint32_t)value->number;
        const uint32_t high = 0xd800 + ((point - 0x10000) >> 10), low = 0xdc00 + (point & 0x3ff);
        const uint8_t one[2] = {(uint8_t)point, (uint8_t)(point >> 8)};
        const uint8_t two[4] = {(uint8_t)high, (uint8_t)(high >> 8), (uint8_t)low, (uint8_t)(low >> 8)};
        return jfs_column_text16(column, point < 0x10000 ? (jfs_view){one, 2} : (jfs_view){two, 4});
    }
    jfs_sink sink;
    jfs_sink_measure(&sink);
    jfs_put_amqp_plain(&sink, value);
    const jfs_status status = jfs_column_room(column, sink.pos);
    if (status != JFS_OK) return status;
    sink = jfs_column_sink(column);
    jfs_put_amqp_plain(&sink, value);
    end_unquoted(column, sink.pos);
    return JFS_OK;
}

static jfs_status put_core_value(jfs_column *column, const jfs_value *value) {
    enum { NUMBER_CHARS_MAX = 64 };
    if (value->code == JFS_CODE_NULL) return jfs_column_null(column);
    if (value->code == JFS_CODE_STRING) return jfs_column_text16(column, value->bytes);
    if (value->code == JFS_CODE_CHAR) {
        const uint8_t unit[2] = {value->bytes.at[1], value->bytes.at[0]};
        return jfs_column_text16(column, (jfs_view){unit, 2});
    }
    const uint64_t room = value->code == JFS_CODE_BYTES ? jfs_base64_bytes(value->bytes.bytes) + 2 : NUMBER_CHARS_MAX;
    const jfs_status status = jfs_column_room(column, room);
    if (status != JFS_OK) return status;
    jfs_sink sink = jfs_column_sink(column);
    jfs_put_plain(&sink, value);
    end_unquoted(column, sink.pos);
    return JFS_OK;
}

/* JSON's parsers let the last of equal keys count, and so do we. Only a message that is irregular has any. */
static int comes_again(jfs_reader rest, uint32_t count, jfs_view key) {
    for (uint32_t i = 0; i < count; i++) {
        const jfs_view other = jfs_next_property(&rest).key;
        if (other.bytes == key.bytes && memcmp(other.at, key.at, key.bytes) == 0) return 1;
    }
    return 0;
}

static jfs_status put_core(const jfs_message *message, jfs_columns *out, uint32_t *rows) {
    enum { COMPARED_MAX = 24 };
    jfs_status status = JFS_OK;
    const uint32_t count = message->properties.count;
    jfs_reader reader = jfs_reader_over(message->properties.bytes);
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        jfs_property property = jfs_next_property(&reader);
        if (message->irregular && count <= COMPARED_MAX && comes_again(reader, count - i - 1, property.key)) continue;
        status = jfs_column_text16(&out->columns[JFS_COLUMN_KEYS], property.key);
        if (status == JFS_OK) status = put_core_value(&out->columns[JFS_COLUMN_VALUES], &property.value);
        if (status == JFS_OK) status = put_kind(out, property.value.code);
        ++*rows;
    }
    return status;
}

static jfs_status put_amqp(const jfs_message *message, jfs_columns *out, uint32_t *rows) {
    const jfs_amqp map = jfs_amqp_section(message, JFS_SECTION_APPLICATION_PROPERTIES);
    jfs_status status = JFS_OK;
    if (map.type != JFS_A_MAP) return JFS_OK;
    jfs_reader reader = jfs_reader_over(map.bytes);
    for (uint32_t i = 0; i + 1 < map.count && status == JFS_OK; i += 2) {
        const jfs_amqp key = jfs_take_amqp(&reader), value = jfs_take_amqp(&reader);
        if (key.type != JFS_A_STRING && key.type != JFS_A_SYMBOL) continue;
        status = jfs_column_text8(&out->columns[JFS_COLUMN_KEYS], key.bytes);
        if (status == JFS_OK) status = jfs_column_amqp(&out->columns[JFS_COLUMN_VALUES], &value);
        if (status == JFS_OK) status = put_kind(out, (uint8_t)(JFS_KIND_AMQP + value.type));
        ++*rows;
    }
    return status;
}

jfs_status jfs_put_property_rows(const jfs_message *message, jfs_columns *out, uint32_t *rows) {
    if ((message->has & JFS_HAS_HEADER) == 0) return JFS_OK;
    return message->protocol == JFS_AMQP ? put_amqp(message, out, rows) : put_core(message, out, rows);
}

const char *jfs_kind_name(uint8_t kind) {
    if (kind >= JFS_KIND_AMQP && kind < JFS_KIND_AMQP + JFS_A_UNKNOWN)
        return jfs_amqp_type_name((jfs_amqp_type)(kind - JFS_KIND_AMQP));
    return kind > JFS_CODE_CHAR || kind == 1 ? NULL : jfs_code_name(kind);
}
