/* From what is written to a file to the bodies of text messages, many at once. */
#ifndef JFS_PUBLISH_H
#define JFS_PUBLISH_H

#include <stdint.h>

#include "jfs_status.h"

/* Bytes [begin, end) of a buffer. */
typedef struct {
    uint64_t begin;
    uint64_t end;
} jfs_stretch;

/* Lines in `bytes`, each without its line feed; what stands behind the last line feed is none.
 * JFS_FULL: there are more than `room`.
 */
jfs_status jfs_split_lines(const uint8_t *bytes, uint64_t length, jfs_stretch *lines, uint64_t room,
                           uint64_t *count);
uint64_t jfs_count_lines(const uint8_t *bytes, uint64_t length);

/* A stream of JSON values, taken apart as it comes. */
typedef struct jfs_values jfs_values;

jfs_status jfs_values_new(jfs_values **out);
void jfs_values_free(jfs_values *values);
/* As it was when the other one was in that state. */
void jfs_values_assign(jfs_values *values, const jfs_values *other);

/* Looks at bytes [*at, length) and moves *at on; `before` bytes that belong to an unfinished value came earlier, and all
 * places told count from there. Lists the values that become whole; *begin: where the first one that is not begins, or
 * behind everything. JFS_FULL: `room` values are listed, call again. JFS_MALFORMED: no JSON at *at.
 */
jfs_status jfs_values_split(jfs_values *values, const uint8_t *bytes, uint64_t length, uint64_t before, uint64_t *at,
                            jfs_stretch *found, uint64_t room, uint64_t *count, uint64_t *begin);
/* Whether what was looked at may end here: 1 when nothing is unfinished or only a number, which an end finishes. */
int jfs_values_may_end(const jfs_values *values);
/* Whether what was JFS_MALFORMED may be JSON, nested deeper than is looked at: 511 levels. */
int jfs_values_too_deep(const jfs_values *values);

/* Whether all of these are UTF-8. */
int jfs_texts_are_utf8(const uint8_t *bytes, const jfs_stretch *texts, uint64_t count);

/* Bytes that jfs_text_bodies needs for stretches of so many bytes together. */
uint64_t jfs_text_bodies_room(uint64_t bytes, uint64_t count);

/* The body of a text message for each stretch of UTF-8: a nullable SimpleString. What is no UTF-8 is copied as it is,
 * and plain[i] is 1. ends[i]: where the body i ends in `out`, which has the room needed.
 */
void jfs_text_bodies(const uint8_t *bytes, const jfs_stretch *texts, uint64_t count, uint8_t *out, uint64_t *ends,
                     uint8_t *plain);

#endif
