/* Is it one JSON object or array (RFC 8259)? Whatever nests deeper than 512 levels counts as no JSON. */
#include "classify.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    START, /* only { or [ */
    VALUE,
    VALUE_OR_END, /* behind [ */
    KEY,
    KEY_OR_END, /* behind { */
    COLON,
    NEXT_OR_END,
    STRING,
    KEY_STRING,
    ESCAPE,
    KEY_ESCAPE,
    HEX,
    KEY_HEX,
    LITERAL,
    MINUS,
    ZERO,
    DIGITS,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    WHOLE,
};

enum { DEPTH_MAX = 512 };

void jfs_json_begin(jfs_json *json) {
    memset(json, 0, sizeof *json);
    json->state = START;
}

int jfs_json_whole(const jfs_json *json) { return json->state == WHOLE; }

static inline int is_space(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }
static inline int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static int open_level(jfs_json *json, int object) {
    if (json->depth == DEPTH_MAX) {
        json->too_deep = 1;
        return 0;
    }
    const uint64_t bit = 1ull << (json->depth % 64);
    if (object)
        json->objects[json->depth / 64] |= bit;
    else
        json->objects[json->depth / 64] &= ~bit;
    json->depth++;
    json->state = object ? KEY_OR_END : VALUE_OR_END;
    return 1;
}

static int in_object(const jfs_json *json) {
    const uint32_t level = json->depth - 1;
    return (json->objects[level / 64] >> (level % 64)) & 1;
}

static int close_level(jfs_json *json, int object) {
    if (in_object(json) != object) return 0;
    json->depth--;
    json->state = json->depth == 0 ? WHOLE : NEXT_OR_END;
    return 1;
}

static int begin_value(jfs_json *json, uint8_t byte) {
    switch (byte) {
    case '{': return open_level(json, 1);
    case '[': return open_level(json, 0);
    case '"': json->state = STRING; return 1;
    case 't': json->literal = "rue"; break;
    case 'f': json->literal = "alse"; break;
    case 'n': json->literal = "ull"; break;
    case '-': json->state = MINUS; return 1;
    case '0': json->state = ZERO; return 1;
    default:
        if (!is_digit(byte)) return 0;
        json->state = DIGITS;
        return 1;
    }
    json->state = LITERAL;
    return 1;
}

static int after_value(jfs_json *json, uint8_t byte) {
    if (byte == ',') {
        json->state = in_object(json) ? KEY : VALUE;
        return 1;
    }
    if (byte == '}' || byte == ']') return close_level(json, byte == '}');
    return 0;
}

static int step_number(jfs_json *json, uint8_t byte) {
    const uint8_t state = json->state;
    if (is_digit(byte)) {
        if (state == ZERO) return 0;
        if (state == MINUS)
            json->state = byte == '0' ? ZERO : DIGITS;
        else if (state == POINT)
            json->state = FRACTION;
        else if (state == EXPONENT || state == EXPONENT_SIGN)
            json->state = EXPONENT_DIGITS;
        return 1;
    }
    if (byte == '.' && (state == ZERO || state == DIGITS)) {
        json->state = POINT;
        return 1;
    }
    if ((byte | 0x20) == 'e' && (state == ZERO || state == DIGITS || state == FRACTION)) {
        json->state = EXPONENT;
        return 1;
    }
    if ((byte == '+' || byte == '-') && state == EXPONENT) {
        json->state = EXPONENT_SIGN;
        return 1;
    }
    if (state != ZERO && state != DIGITS && state != FRACTION && state != EXPONENT_DIGITS) return 0;
    json->state = NEXT_OR_END;
    return is_space(byte) || after_value(json, byte);
}

static int step_string(jfs_json *json, uint8_t byte) {
    const int key = json->state == KEY_STRING || json->state == KEY_ESCAPE || json->state == KEY_HEX;
    switch (json->state) {
    case STRING:
    case KEY_STRING:
        if (byte == '"')
            json->state = key ? COLON : NEXT_OR_END;
        else if (byte == '\\')
            json->state = key ? KEY_ESCAPE : ESCAPE;
        return byte >= 0x20;
    case ESCAPE:
    case KEY_ESCAPE:
        json->state = key ? KEY_STRING : STRING;
        if (byte == 'u') {
            json->state = key ? KEY_HEX : HEX;
            json->hex_left = 4;
        }
        return byte == 'u' || (byte != 0 && strchr("\"\\/bfnrt", byte) != NULL);
    default:
        if (--json->hex_left == 0) json->state = key ? KEY_STRING : STRING;
        return is_digit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
    }
}

static int step_structure(jfs_json *json, uint8_t byte) {
    if (is_space(byte)) return 1;
    switch (json->state) {
    case START: return (byte == '{' || byte == '[') && begin_value(json, byte);
    case VALUE_OR_END:
        if (byte == ']') return close_level(json, 0);
        return begin_value(json, byte);
    case VALUE: return begin_value(json, byte);
    case KEY_OR_END:
        if (byte == '}') return close_level(json, 1);
        /* fall through */
    case KEY: json->state = KEY_STRING; return byte == '"';
    case COLON: json->state = VALUE; return byte == ':';
    case NEXT_OR_END: return after_value(json, byte);
    default: return 0; /* something behind the whole */
    }
}

static int step(jfs_json *json, uint8_t byte) {
    if (json->state >= STRING && json->state <= KEY_HEX) return step_string(json, byte);
    if (json->state >= MINUS && json->state <= EXPONENT_DIGITS) return step_number(json, byte);
    if (json->state == LITERAL) {
        if (byte != (uint8_t)*json->literal) return 0;
        if (*++json->literal == 0) json->state = NEXT_OR_END;
        return 1;
    }
    return step_structure(json, byte);
}

/* How many bytes from `at` on are plain inside of a string. */
static size_t plain_run(const uint8_t *at, const uint8_t *end) {
    const uint8_t *begin = at;
#if defined(__SSE2__)
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i stop = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        stop = _mm_or_si128(stop, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        int mask = _mm_movemask_epi8(stop);
        if (mask != 0) return (size_t)(at - begin) + (size_t)__builtin_ctz((unsigned)mask);
        at += 16;
    }
#endif
    while (at < end && *at >= 0x20 && *at != '"' && *at != '\\') at++;
    return (size_t)(at - begin);
}

int jfs_json_feed(jfs_json *json, const uint8_t *bytes, size_t length) {
    const uint8_t *at = bytes, *end = bytes + length;
    while (at < end) {
        if (json->state == STRING || json->state == KEY_STRING) {
            at += plain_run(at, end);
            if (at == end) break;
        }
        if (!step(json, *at++)) return 0;
    }
    return 1;
}

/* As if it stood in an array: that is the level at which a value ends. */
void jfs_json_begin_value(jfs_json *json) {
    jfs_json_begin(json);
    json->depth = 1;
    json->state = VALUE;
}

int jfs_json_may_end(const jfs_json *json) {
    const uint8_t state = json->state;
    return json->depth == 1 && (state == ZERO || state == DIGITS || state == FRACTION || state == EXPONENT_DIGITS);
}

static inline int is_of_number(uint8_t byte) {
    return is_digit(byte) || byte == '.' || byte == '+' || byte == '-' || (byte | 0x20) == 'e';
}

size_t jfs_json_take(jfs_json *json, const uint8_t *bytes, size_t length, jfs_json_end *end) {
    const uint8_t *at = bytes;
    const uint8_t *const stop = bytes + length;
    while (at < stop) {
        if (json->state == STRING || json->state == KEY_STRING) {
            at += plain_run(at, stop);
            if (at == stop) break;
        }
        const int bare_number = json->depth == 1 && json->state >= MINUS && json->state <= EXPONENT_DIGITS;
        if (bare_number && !is_of_number(*at)) {
            *end = jfs_json_may_end(json) ? JFS_JSON_DONE : JFS_JSON_BAD;
            return (size_t)(at - bytes);
        }
        if (!step(json, *at)) {
            *end = JFS_JSON_BAD;
            return (size_t)(at - bytes);
        }
        at++;
        if (json->depth == 1 && json->state == NEXT_OR_END) {
            *end = JFS_JSON_DONE;
            return (size_t)(at - bytes);
        }
    }
    *end = JFS_JSON_MORE;
    return (size_t)(at - bytes);
}
