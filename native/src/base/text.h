/* Text of any length into the sink, as a JSON string's inside or as UTF-8. */
#ifndef JFS_TEXT_H
#define JFS_TEXT_H

#include "sink.h"

typedef enum {
    JFS_UTF16LE_JSON = 0, /* SimpleString units; lone surrogates become \udXXX */
    JFS_UTF16LE_UTF8 = 1, /* the same as plain UTF-8; lone surrogates as three bytes */
    JFS_UTF8_JSON = 2,    /* AMQP strings; a byte that is no UTF-8 becomes \udc80 to \udcff, so it can be told back */
} jfs_text;

/* Text without quotes around it. A last odd byte of UTF-16 is left out. */
void jfs_put_text(jfs_sink *sink, jfs_view text, jfs_text how);
/* With quotes. */
void jfs_put_string16(jfs_sink *sink, jfs_view utf16);
void jfs_put_string8(jfs_sink *sink, jfs_view utf8);
uint64_t jfs_text_bytes(jfs_view text, jfs_text how);

/*
 * Converts about `step` source bytes: whole characters, never past `text`. `out` must have room for 6 times the
 * source bytes plus 24. Returns the bytes written; *used = source bytes consumed (at least 1 when the text is not
 * empty).
 */
size_t jfs_convert(jfs_view text, size_t step, jfs_text how, uint8_t *out, size_t *used);

/* Bytes of one UTF-8 sequence at `at`, 0 when it is none (surrogates, overlong forms, above U+10FFFF). */
size_t jfs_utf8_sequence(const uint8_t *at, const uint8_t *end);

#endif
