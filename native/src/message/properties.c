/* TypedProperties: taking them apart. */
#include "properties.h"

#include <string.h>

static uint64_t fixed_bytes(uint8_t code) {
    switch (code) {
    case JFS_CODE_NULL: return 0;
    case JFS_CODE_BOOLEAN:
    case JFS_CODE_BYTE: return 1;
    case JFS_CODE_SHORT:
    case JFS_CODE_CHAR: return 2;
    case JFS_CODE_INT:
    case JFS_CODE_FLOAT: return 4;
    case JFS_CODE_LONG:
    case JFS_CODE_DOUBLE: return 8;
    default: return UINT64_MAX;
    }
}

jfs_value jfs_take_value(jfs_reader *reader, uint8_t code) {
    jfs_value value = {{NULL, 0}, code, JFS_STRING_LE};
    if (code == JFS_CODE_STRING || code == JFS_CODE_BYTES) {
        value.bytes = jfs_take_sized(reader);
        if (code == JFS_CODE_STRING && (value.bytes.bytes & 1)) reader->bad = 1;
        return value;
    }
    uint64_t bytes = fixed_bytes(code);
    if (bytes == UINT64_MAX)
        value.code = UINT8_MAX;
    else
        value.bytes = jfs_take(reader, bytes);
    return value;
}

size_t jfs_utf_unit(const uint8_t *at, const uint8_t *end) {
    const size_t width = at[0] < 0x80 ? 1 : (at[0] & 0xe0) == 0xc0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : 0;
    if (width > (size_t)(end - at)) return 0;
    for (size_t i = 1; i < width; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return width;
}

int jfs_is_utf(jfs_view bytes) {
    size_t units = 0;
    for (const uint8_t *at = bytes.at, *end = at + bytes.bytes; at < end; units++) {
        const size_t width = jfs_utf_unit(at, end);
        if (width == 0 || units == JFS_UTF_UNITS_MAX) return 0;
        at += width;
    }
    return 1;
}

/* A stream's strings are nullable short strings: a null one is the stream's null. */
jfs_value jfs_take_stream_value(jfs_reader *reader) {
    uint8_t code = jfs_take8(reader);
    if (code != JFS_CODE_STRING) return jfs_take_value(reader, code);
    jfs_value value = {{NULL, 0}, JFS_CODE_STRING, JFS_STRING_LE};
    if (jfs_take8(reader) == 0) {
        value.code = JFS_CODE_NULL;
        return value;
    }
    uint32_t units = jfs_take32(reader);
    if (units > INT32_MAX) {
        reader->bad = 1;
    } else if (units < 9) {
        value.text = JFS_STRING_BE;
        value.bytes = jfs_take(reader, 2 * (uint64_t)units);
    } else if (units <= JFS_UTF_UNITS_MAX) {
        value.text = JFS_STRING_UTF;
        value.bytes = jfs_take(reader, jfs_take16(reader));
    } else {
        value.bytes = jfs_take_sized(reader);
        if (value.bytes.bytes & 1) reader->bad = 1;
    }
    return value;
}

jfs_property jfs_next_property(jfs_reader *reader) {
    jfs_property property;
    property.key = jfs_take_sized(reader);
    property.value = jfs_take_value(reader, jfs_take8(reader));
    return property;
}

/* A boolean is written 00 or 01; another byte reads as true but would not be written back. */
static int odd_boolean(const jfs_value *value) {
    return value->code == JFS_CODE_BOOLEAN && value->bytes.at != NULL && value->bytes.at[0] > 1;
}

/* A JSON object keeps one value a key. Few keys are compared; a map of more comes from a program, whose map had each
 * once. */
enum { COMPARED_MAX = 24 };

static int is_among(const jfs_view *keys, uint32_t count, jfs_view key) {
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].bytes == key.bytes && memcmp(keys[i].at, key.at, key.bytes) == 0) return 1;
    return 0;
}

int jfs_take_properties(jfs_reader *reader, jfs_entries *out, const char **reason, uint8_t *irregular) {
    *out = (jfs_entries){{NULL, 0}, 0};
    uint8_t mark = jfs_take8(reader);
    if (reader->bad) {
        *reason = "the properties are missing";
        return 0;
    }
    if (mark == 0) return 1;
    if (mark != 1) *irregular = 1;
    uint32_t count = jfs_take32(reader);
    const uint8_t *begin = reader->at;
    /* The smallest entry is a key of no characters and a null: five bytes. */
    if (reader->bad || count > jfs_left(reader) / 5) {
        *reason = "more properties are announced than there is room for";
        return 0;
    }
    jfs_view keys[COMPARED_MAX];
    for (uint32_t i = 0; i < count; i++) {
        jfs_property property = jfs_next_property(reader);
        if (property.value.code == UINT8_MAX) {
            *reason = "a property has an unknown type";
            return 0;
        }
        if (property.key.bytes & 1) reader->bad = 1;
        if (reader->bad) {
            *reason = "a property ends too early";
            return 0;
        }
        if (odd_boolean(&property.value)) *irregular = 1;
        if (count > COMPARED_MAX) continue;
        if (is_among(keys, i, property.key)) *irregular = 1;
        keys[i] = property.key;
    }
    *out = (jfs_entries){{begin, (uint64_t)(reader->at - begin)}, count};
    if (count == 0) *irregular = 1;
    return 1;
}

int jfs_key_is(jfs_view key, const char *name) {
    uint64_t i = 0;
    for (; name[i] != 0; i++)
        if (2 * i + 1 >= key.bytes || key.at[2 * i] != (uint8_t)name[i] || key.at[2 * i + 1] != 0) return 0;
    return 2 * i == key.bytes;
}

const char *jfs_code_name(uint8_t code) {
    static const char *const names[] = {"null", "",     "boolean", "byte",   "bytes",  "short",
                                        "int",  "long", "float",   "double", "string", "char"};
    return names[code];
}

int64_t jfs_value_integer(const jfs_value *value) {
    switch (value->code) {
    case JFS_CODE_BYTE: return (int8_t)value->bytes.at[0];
    case JFS_CODE_SHORT: return (int16_t)jfs_load16(value->bytes.at);
    case JFS_CODE_INT: return (int32_t)jfs_load32(value->bytes.at);
    case JFS_CODE_LONG: return (int64_t)jfs_load64(value->bytes.at);
    default: return 0;
    }
}
