/* The suffix of a message's own file, by what is in it. */
#include "classify.h"

#include "amqp.h"
#include "envelope.h"
#include "text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

void jfs_plain_begin(jfs_plain *plain) { memset(plain, 0, sizeof *plain); }

int jfs_plain_whole(const jfs_plain *plain) { return plain->open_bytes == 0; }

static int is_control(uint8_t byte) {
    return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
}

static size_t printable_run(const uint8_t *at, const uint8_t *end) {
    const uint8_t *begin = at;
#if defined(__SSE2__)
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        /* As signed bytes, everything from 0x20 to 0x7e is above 0x1f and below 0x7f. */
        __m128i good =
            _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8(0x1f)), _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x7f)));
        int mask = _mm_movemask_epi8(good) ^ 0xffff;
        if (mask != 0) return (size_t)(at - begin) + (size_t)__builtin_ctz((unsigned)mask);
        at += 16;
    }
#endif
    while (at < end && *at >= 0x20 && *at < 0x7f) at++;
    return (size_t)(at - begin);
}

/* The length that a sequence's first byte announces; 0 for a byte that begins none. */
static size_t announced(uint8_t first) {
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

int jfs_plain_feed(jfs_plain *plain, const uint8_t *bytes, size_t length) {
    const uint8_t *at = bytes, *end = bytes + length;
    while (at < end && plain->open_bytes > 0) {
        plain->open[plain->open_bytes++] = *at++;
        if (plain->open_bytes < announced(plain->open[0])) continue;
        if (jfs_utf8_sequence(plain->open, plain->open + plain->open_bytes) == 0) return 0;
        plain->open_bytes = 0;
    }
    while (at < end) {
        at += printable_run(at, end);
        if (at == end) break;
        if (*at < 0x80) {
            if (is_control(*at++)) return 0;
            continue;
        }
        size_t width = announced(*at);
        if (width == 0) return 0;
        if ((size_t)(end - at) < width) { /* goes on in the next piece */
            plain->open_bytes = (size_t)(end - at);
            memcpy(plain->open, at, plain->open_bytes);
            break;
        }
        if (jfs_utf8_sequence(at, end) == 0) return 0;
        at += width;
    }
    return 1;
}

/* Text is JSON or it is not: read as UTF-8 a piece at a time, and only when it begins like one. */
static uint8_t text16_suffix(jfs_view text) {
    enum { STEP = 1024 };
    uint8_t aside[6 * STEP + 24];
    jfs_json json;
    uint64_t first = 0;
    while (first + 1 < text.bytes && text.at[first + 1] == 0 && text.at[first] != 0 &&
           strchr(" \t\r\n", text.at[first]) != NULL)
        first += 2;
    if (first + 1 >= text.bytes || text.at[first + 1] != 0 || (text.at[first] != '{' && text.at[first] != '['))
        return JFS_SUFFIX_TXT;
    jfs_json_begin(&json);
    jfs_view rest = {text.at + first, text.bytes - first};
    while (rest.bytes > 0) {
        size_t used, length = jfs_convert(rest, STEP, JFS_UTF16LE_UTF8, aside, &used);
        if (!jfs_json_feed(&json, aside, length)) return JFS_SUFFIX_TXT;
        rest.at += used;
        rest.bytes -= used;
    }
    return jfs_json_whole(&json) ? JFS_SUFFIX_JSON : JFS_SUFFIX_TXT;
}

/* Bytes of unknown meaning, in one or several pieces. */
typedef struct {
    jfs_json json;
    jfs_plain plain;
    int may_be_json;
} raw_content;

static void content_begin(raw_content *content) {
    jfs_json_begin(&content->json);
    jfs_plain_begin(&content->plain);
    content->may_be_json = 1;
}

/* 0: binary. Looked at in steps, so that long binary content is left at its first strange byte. */
static int content_feed(raw_content *content, jfs_view bytes) {
    enum { STEP = 16384 };
    while (bytes.bytes > 0) {
        const size_t step = bytes.bytes < STEP ? bytes.bytes : STEP;
        if (!jfs_plain_feed(&content->plain, bytes.at, step)) return 0;
        if (content->may_be_json) content->may_be_json = jfs_json_feed(&content->json, bytes.at, step);
        bytes.at += step;
        bytes.bytes -= step;
    }
    return 1;
}

static uint8_t content_suffix(const raw_content *content) {
    if (!jfs_plain_whole(&content->plain)) return JFS_SUFFIX_BIN;
    return content->may_be_json && jfs_json_whole(&content->json) ? JFS_SUFFIX_JSON : JFS_SUFFIX_TXT;
}

static uint8_t raw_suffix(jfs_view bytes) {
    raw_content content;
    content_begin(&content);
    return content_feed(&content, bytes) ? content_suffix(&content) : JFS_SUFFIX_BIN;
}

static uint8_t data_suffix(const jfs_message *message) {
    raw_content content;
    jfs_amqp section;
    jfs_reader reader = jfs_reader_over(message->body);
    content_begin(&content);
    while (jfs_next_body_section(&reader, &section))
        if (!content_feed(&content, section.bytes)) return JFS_SUFFIX_BIN;
    return content_suffix(&content);
}

static uint8_t value_suffix(const jfs_message *message) {
    jfs_amqp value = jfs_amqp_section(message, JFS_SECTION_VALUE);
    if (value.type == JFS_A_BINARY) return raw_suffix(value.bytes);
    if (value.type != JFS_A_STRING) return JFS_SUFFIX_JSON;
    jfs_json json;
    jfs_json_begin(&json);
    return jfs_json_feed(&json, value.bytes.at, value.bytes.bytes) && jfs_json_whole(&json) ? JFS_SUFFIX_JSON
                                                                                            : JFS_SUFFIX_TXT;
}

uint8_t jfs_body_suffix(const jfs_message *message) {
    if ((message->has & JFS_HAS_BODY) == 0) return JFS_SUFFIX_BIN;
    switch (message->body_kind) {
    case JFS_BODY_TEXT: return text16_suffix(message->body);
    case JFS_BODY_RAW: return raw_suffix(message->body);
    case JFS_BODY_OBJECT: return JFS_SUFFIX_SER;
    case JFS_BODY_MAP:
    case JFS_BODY_STREAM:
    case JFS_BODY_SEQUENCE: return JFS_SUFFIX_JSON;
    case JFS_BODY_DATA: return data_suffix(message);
    case JFS_BODY_VALUE: return value_suffix(message);
    default: return JFS_SUFFIX_TXT;
    }
}
