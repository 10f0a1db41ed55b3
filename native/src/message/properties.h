/* TypedProperties, and the same values in stream bodies. */
#ifndef JFS_PROPERTIES_H
#define JFS_PROPERTIES_H

#include "message.h"

enum {
    JFS_CODE_NULL = 0,
    JFS_CODE_BOOLEAN = 2,
    JFS_CODE_BYTE = 3,
    JFS_CODE_BYTES = 4,
    JFS_CODE_SHORT = 5,
    JFS_CODE_INT = 6,
    JFS_CODE_LONG = 7,
    JFS_CODE_FLOAT = 8,
    JFS_CODE_DOUBLE = 9,
    JFS_CODE_STRING = 10,
    JFS_CODE_CHAR = 11,
};

/* One value: fixed-size ones as their bytes, strings and byte arrays without their length. */
typedef struct {
    jfs_view bytes;
    uint8_t code;
    uint8_t text; /* how a stream's string is stored: JFS_STRING_* */
} jfs_value;

/* The forms of a "short string"; properties hold LE ones only. */
enum { JFS_STRING_LE = 0, JFS_STRING_BE = 1, JFS_STRING_UTF = 2 };

/* A short string of more is a SimpleString. */
enum { JFS_UTF_UNITS_MAX = 4094 };

typedef struct {
    jfs_view key;
    jfs_value value;
} jfs_property;

/* Presence mark, count and all entries. Returns 0 with a reason on what no writer makes. *irregular is set on
 * oddities. */
int jfs_take_properties(jfs_reader *reader, jfs_entries *out, const char **reason, uint8_t *irregular);
/* The next entry of checked ones. */
jfs_property jfs_next_property(jfs_reader *reader);
/* One value after its code; sets reader->bad when it is not whole, value.code = 255 when the code is unknown. */
jfs_value jfs_take_value(jfs_reader *reader, uint8_t code);
/* One value of a stream body, its code included. */
jfs_value jfs_take_stream_value(jfs_reader *reader);
/* Bytes of the UTF-16 unit at `at` in its one to three bytes; 0: it is none. */
size_t jfs_utf_unit(const uint8_t *at, const uint8_t *end);
/* Whether a JFS_STRING_UTF is made of such units, and of no more than JFS_UTF_UNITS_MAX. */
int jfs_is_utf(jfs_view bytes);

int jfs_key_is(jfs_view key, const char *name);
const char *jfs_code_name(uint8_t code);
int64_t jfs_value_integer(const jfs_value *value);

/* Rendering. */
void jfs_put_plain(jfs_sink *sink, const jfs_value *value);
void jfs_put_typed(jfs_sink *sink, const jfs_value *value);
/* {"key":plain,...} */
void jfs_put_properties(jfs_sink *sink, jfs_entries entries);
/* {"key":"type",...} of those that JSON's own types do not tell apart; *any = 0 when there is none and nothing was
 * written. */
int jfs_has_property_types(jfs_entries entries);
void jfs_put_property_types(jfs_sink *sink, jfs_entries entries);
/* {"key":{"t":..,"v":..},...} */
void jfs_put_typed_map(jfs_sink *sink, jfs_entries entries);
/* [{"t":..,"v":..},...] */
void jfs_put_stream(jfs_sink *sink, jfs_view body);

#endif
