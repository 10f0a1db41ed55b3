/* TypedProperties and stream bodies as JSON. */
#include "properties.h"
#include "text.h"

/* CESU-8 of a short string that was looked at: each UTF-16 unit on its own, U+0000 as a plain zero. */
static size_t decode_utf(jfs_view bytes, uint8_t *units) {
    size_t count = 0;
    for (const uint8_t *at = bytes.at, *end = at + bytes.bytes; at < end; count++) {
        const size_t width = jfs_utf_unit(at, end);
        uint32_t unit = at[0] & (width == 1 ? 0x7fu : width == 2 ? 0x1fu : 0x0fu);
        for (size_t i = 1; i < width; i++) unit = (unit << 6) | (at[i] & 0x3fu);
        units[2 * count] = (uint8_t)unit;
        units[2 * count + 1] = (uint8_t)(unit >> 8);
        at += width;
    }
    return count;
}

static void put_short_string(jfs_sink *sink, const jfs_value *value) {
    uint8_t units[2 * JFS_UTF_UNITS_MAX];
    if (value->text == JFS_STRING_BE) {
        for (uint64_t i = 0; i + 1 < value->bytes.bytes && i < sizeof units; i += 2) {
            units[i] = value->bytes.at[i + 1];
            units[i + 1] = value->bytes.at[i];
        }
        jfs_put_string16(sink, (jfs_view){units, value->bytes.bytes});
        return;
    }
    jfs_put_string16(sink, (jfs_view){units, 2 * decode_utf(value->bytes, units)});
}

void jfs_put_plain(jfs_sink *sink, const jfs_value *value) {
    switch (value->code) {
    case JFS_CODE_NULL: JFS_PUT(sink, "null"); break;
    case JFS_CODE_BOOLEAN: jfs_put_bool(sink, value->bytes.at[0] != 0); break;
    case JFS_CODE_BYTES:
        jfs_put_byte(sink, '"');
        jfs_put_base64(sink, value->bytes);
        jfs_put_byte(sink, '"');
        break;
    case JFS_CODE_FLOAT: jfs_put_float(sink, jfs_load32(value->bytes.at)); break;
    case JFS_CODE_DOUBLE: jfs_put_double(sink, jfs_load64(value->bytes.at)); break;
    case JFS_CODE_CHAR: {
        uint8_t unit[2] = {value->bytes.at[1], value->bytes.at[0]};
        jfs_put_string16(sink, (jfs_view){unit, 2});
        break;
    }
    case JFS_CODE_STRING:
        if (value->text == JFS_STRING_LE)
            jfs_put_string16(sink, value->bytes);
        else
            put_short_string(sink, value);
        break;
    default: jfs_put_signed(sink, jfs_value_integer(value)); break;
    }
}

void jfs_put_typed(jfs_sink *sink, const jfs_value *value) {
    const char *name = jfs_code_name(value->code);
    JFS_PUT(sink, "{\"t\":\"");
    jfs_put(sink, name, strlen(name));
    JFS_PUT(sink, "\",\"v\":");
    jfs_put_plain(sink, value);
    jfs_put_byte(sink, '}');
}

typedef void (*put_entry)(jfs_sink *sink, const jfs_property *property);

static void put_entry_plain(jfs_sink *sink, const jfs_property *property) { jfs_put_plain(sink, &property->value); }

static void put_entry_typed(jfs_sink *sink, const jfs_property *property) { jfs_put_typed(sink, &property->value); }

static void put_entry_type(jfs_sink *sink, const jfs_property *property) {
    const char *name = jfs_code_name(property->value.code);
    jfs_put_byte(sink, '"');
    jfs_put(sink, name, strlen(name));
    jfs_put_byte(sink, '"');
}

static int needs_type(const jfs_value *value) {
    return value->code != JFS_CODE_STRING && value->code != JFS_CODE_BOOLEAN && value->code != JFS_CODE_NULL;
}

/* The members of an object; `kind` tells the ways of rendering the same entries apart. index of a mark: members
 * written. */
static void put_members(jfs_sink *sink, jfs_entries entries, put_entry put, uint32_t kind, int types_only) {
    jfs_piece piece;
    if (!jfs_piece_begin(sink, &piece, entries.bytes.at, entries.bytes.bytes, JFS_PIECE_ENTRIES + (kind << 8)))
        return;
    jfs_reader reader = jfs_reader_behind(entries.bytes, piece.mark.source);
    uint64_t written = piece.mark.index;
    while (reader.at < reader.end) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - entries.bytes.at), written);
        jfs_property property = jfs_next_property(&reader);
        if (reader.bad) return;
        if (types_only && !needs_type(&property.value)) continue;
        if (written++ > 0) jfs_put_byte(sink, ',');
        jfs_put_string16(sink, property.key);
        jfs_put_byte(sink, ':');
        put(sink, &property);
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_piece_end(sink, &piece);
}

void jfs_put_properties(jfs_sink *sink, jfs_entries entries) {
    jfs_put_byte(sink, '{');
    put_members(sink, entries, put_entry_plain, 0, 0);
    jfs_put_byte(sink, '}');
}

int jfs_has_property_types(jfs_entries entries) {
    jfs_reader reader = jfs_reader_over(entries.bytes);
    while (reader.at < reader.end && !reader.bad) {
        jfs_property property = jfs_next_property(&reader);
        if (needs_type(&property.value)) return 1;
    }
    return 0;
}

void jfs_put_property_types(jfs_sink *sink, jfs_entries entries) {
    jfs_put_byte(sink, '{');
    put_members(sink, entries, put_entry_type, 1, 1);
    jfs_put_byte(sink, '}');
}

void jfs_put_typed_map(jfs_sink *sink, jfs_entries entries) {
    jfs_put_byte(sink, '{');
    put_members(sink, entries, put_entry_typed, 2, 0);
    jfs_put_byte(sink, '}');
}

void jfs_put_stream(jfs_sink *sink, jfs_view body) {
    jfs_piece piece;
    jfs_put_byte(sink, '[');
    if (jfs_piece_begin(sink, &piece, body.at, body.bytes, JFS_PIECE_STREAM)) {
        jfs_reader reader = jfs_reader_behind(body, piece.mark.source);
        uint64_t written = piece.mark.index;
        while (reader.at < reader.end) {
            jfs_piece_step(sink, &piece, (uint64_t)(reader.at - body.at), written);
            jfs_value value = jfs_take_stream_value(&reader);
            if (reader.bad) return;
            if (written++ > 0) jfs_put_byte(sink, ',');
            jfs_put_typed(sink, &value);
            if (jfs_full(sink)) {
                jfs_piece_stop(&piece);
                return;
            }
        }
        jfs_piece_end(sink, &piece);
    }
    jfs_put_byte(sink, ']');
}
