/* AMQP values as JSON: {"t": type, "v": value}, lists as arrays, maps as arrays of pairs. */
#include "amqp.h"
#include "text.h"

static void put_quoted_base64(jfs_sink *sink, jfs_view bytes) {
    jfs_put_byte(sink, '"');
    jfs_put_base64(sink, bytes);
    jfs_put_byte(sink, '"');
}

/* A code point in UTF-16, which is what says how a lone surrogate is written. */
static void put_char(jfs_sink *sink, uint32_t point) {
    uint8_t units[4] = {(uint8_t)point, (uint8_t)(point >> 8), 0, 0};
    uint64_t bytes = 2;
    if (point >= 0x10000) {
        const uint32_t high = 0xd800 + ((point - 0x10000) >> 10), low = 0xdc00 + ((point - 0x10000) & 0x3ff);
        units[0] = (uint8_t)high;
        units[1] = (uint8_t)(high >> 8);
        units[2] = (uint8_t)low;
        units[3] = (uint8_t)(low >> 8);
        bytes = 4;
    }
    jfs_put_string16(sink, (jfs_view){units, bytes});
}

static jfs_amqp take_item(jfs_reader *reader, const jfs_amqp *container) {
    if (container->type == JFS_A_ARRAY) return jfs_take_amqp_element(reader, container->element);
    return jfs_take_amqp(reader);
}

/* An array's descriptor stands once in the encoding, but belongs to every element. */
static void put_item(jfs_sink *sink, const jfs_amqp *container, const jfs_amqp *value) {
    const int described = container->type == JFS_A_ARRAY && container->element.bytes > 1;
    if (described) {
        jfs_reader reader = {container->element.at + 1, container->element.at + container->element.bytes, 0};
        jfs_amqp descriptor = jfs_take_amqp(&reader);
        JFS_PUT(sink, "{\"t\":\"described\",\"descriptor\":");
        jfs_put_amqp(sink, &descriptor);
        JFS_PUT(sink, ",\"v\":");
    }
    jfs_put_amqp(sink, value);
    if (described) jfs_put_byte(sink, '}');
}

/* Items separated by commas; of a map, pairs in brackets. */
static void put_items(jfs_sink *sink, const jfs_amqp *container) {
    jfs_piece piece;
    const uint32_t width = container->type == JFS_A_MAP ? 2 : 1;
    if (!jfs_piece_begin(sink, &piece, container->bytes.at, container->bytes.bytes, JFS_PIECE_AMQP)) return;
    jfs_reader reader = jfs_reader_behind(container->bytes, piece.mark.source);
    for (uint64_t i = piece.mark.index; i < container->count; i += width) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - container->bytes.at), i);
        if (i > 0) jfs_put_byte(sink, ',');
        if (width == 2) {
            jfs_put_byte(sink, '[');
            jfs_amqp key = jfs_take_amqp(&reader);
            if (reader.bad) return;
            jfs_put_amqp(sink, &key);
            jfs_put_byte(sink, ',');
        }
        jfs_amqp value = take_item(&reader, container);
        if (reader.bad) return;
        put_item(sink, container, &value);
        if (width == 2) jfs_put_byte(sink, ']');
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_piece_end(sink, &piece);
}

void jfs_put_amqp_items(jfs_sink *sink, const jfs_amqp *list) { put_items(sink, list); }

void jfs_put_amqp_pairs(jfs_sink *sink, const jfs_amqp *map) {
    jfs_put_byte(sink, '[');
    put_items(sink, map);
    jfs_put_byte(sink, ']');
}

static void put_described(jfs_sink *sink, const jfs_amqp *value) {
    jfs_reader reader = jfs_reader_over(value->bytes);
    jfs_amqp descriptor = jfs_take_amqp(&reader), inner = jfs_take_amqp(&reader);
    JFS_PUT(sink, "{\"t\":\"described\",\"descriptor\":");
    jfs_put_amqp(sink, &descriptor);
    JFS_PUT(sink, ",\"v\":");
    jfs_put_amqp(sink, &inner);
    jfs_put_byte(sink, '}');
}

void jfs_put_amqp_plain(jfs_sink *sink, const jfs_amqp *value) {
    switch (value->type) {
    case JFS_A_NULL: JFS_PUT(sink, "null"); break;
    case JFS_A_BOOLEAN: jfs_put_bool(sink, value->number != 0); break;
    case JFS_A_UBYTE:
    case JFS_A_USHORT:
    case JFS_A_UINT:
    case JFS_A_ULONG: jfs_put_unsigned(sink, value->number); break;
    case JFS_A_BYTE:
    case JFS_A_SHORT:
    case JFS_A_INT:
    case JFS_A_LONG:
    case JFS_A_TIMESTAMP: jfs_put_signed(sink, (int64_t)value->number); break;
    case JFS_A_FLOAT: jfs_put_float(sink, (uint32_t)value->number); break;
    case JFS_A_DOUBLE: jfs_put_double(sink, value->number); break;
    case JFS_A_CHAR: put_char(sink, (uint32_t)value->number); break;
    case JFS_A_BINARY: put_quoted_base64(sink, value->bytes); break;
    case JFS_A_STRING:
    case JFS_A_SYMBOL: jfs_put_string8(sink, value->bytes); break;
    case JFS_A_MAP: jfs_put_amqp_pairs(sink, value); break;
    case JFS_A_LIST:
    case JFS_A_ARRAY:
        jfs_put_byte(sink, '[');
        put_items(sink, value);
        jfs_put_byte(sink, ']');
        break;
    case JFS_A_DESCRIBED: put_described(sink, value); break;
    default: /* decimals and uuids */
        jfs_put_byte(sink, '"');
        if (value->type == JFS_A_UUID)
            jfs_put_uuid(sink, value->bytes.at);
        else
            jfs_put_hex(sink, value->bytes.at, value->bytes.bytes);
        jfs_put_byte(sink, '"');
        break;
    }
}

/* An empty array has no value to tell its elements' type, so it stands beside. */
static void put_element_type(jfs_sink *sink, const jfs_amqp *array) {
    if (array->count > 0 || array->element.bytes == 0) return;
    uint8_t zeros[16] = {0};
    jfs_reader reader = {zeros, zeros + sizeof zeros, 0};
    const char *name = jfs_amqp_type_name(jfs_take_amqp_element(&reader, array->element).type);
    JFS_PUT(sink, ",\"of\":\"");
    jfs_put(sink, name, strlen(name));
    jfs_put_byte(sink, '"');
}

void jfs_put_amqp(jfs_sink *sink, const jfs_amqp *value) {
    if (jfs_full(sink)) return;
    if (value->type == JFS_A_DESCRIBED) {
        put_described(sink, value);
        return;
    }
    const char *name = jfs_amqp_type_name(value->type);
    JFS_PUT(sink, "{\"t\":\"");
    jfs_put(sink, name, strlen(name));
    jfs_put_byte(sink, '"');
    if (value->type == JFS_A_ARRAY) put_element_type(sink, value);
    JFS_PUT(sink, ",\"v\":");
    jfs_put_amqp_plain(sink, value);
    jfs_put_byte(sink, '}');
}

void jfs_put_amqp_text(jfs_sink *sink, const jfs_amqp *value) {
    if (value->type == JFS_A_STRING || value->type == JFS_A_SYMBOL || value->type == JFS_A_UUID ||
        value->type == JFS_A_BINARY) {
        jfs_put_amqp_plain(sink, value);
        return;
    }
    jfs_put_byte(sink, '"');
    jfs_put_amqp_plain(sink, value); /* a number */
    jfs_put_byte(sink, '"');
}
