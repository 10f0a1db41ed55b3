/* What the content of a message looks like, found in one pass over it, in any number of pieces. */
#ifndef JFS_CLASSIFY_H
#define JFS_CLASSIFY_H

#include "sink.h"

/* One JSON object or array, checked as it comes. */
typedef struct {
    uint64_t objects[8]; /* bit per open level: it is an object */
    uint32_t depth;
    uint8_t state;
    uint8_t hex_left;
    uint8_t too_deep; /* it may be JSON, but opens more levels than are counted */
    const char *literal; /* what is left of true, false or null */
} jfs_json;

void jfs_json_begin(jfs_json *json);
/* 0 as soon as it can be no JSON object or array. */
int jfs_json_feed(jfs_json *json, const uint8_t *bytes, size_t length);
int jfs_json_whole(const jfs_json *json);

/* Any one value of a stream, to its own end. */
typedef enum { JFS_JSON_MORE, JFS_JSON_DONE, JFS_JSON_BAD } jfs_json_end;

void jfs_json_begin_value(jfs_json *json);
/* How many bytes belong to the value (JFS_JSON_BAD: up to the one that does not). A number ends before what follows it.
 */
size_t jfs_json_take(jfs_json *json, const uint8_t *bytes, size_t length, jfs_json_end *end);
/* Whether the value is a number that is whole if nothing more comes. */
int jfs_json_may_end(const jfs_json *json);

/* UTF-8 without control characters, checked as it comes. */
typedef struct {
    uint8_t open[4]; /* a sequence that the last piece cut */
    size_t open_bytes;
} jfs_plain;

void jfs_plain_begin(jfs_plain *plain);
int jfs_plain_feed(jfs_plain *plain, const uint8_t *bytes, size_t length);
int jfs_plain_whole(const jfs_plain *plain);

#endif
