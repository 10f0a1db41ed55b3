/* Text messages, many at once, straight from UTF-8 into the records of a page. */
#ifndef JFS_PAGE_TEXTS_H
#define JFS_PAGE_TEXTS_H

#include "jfs_stage_texts.h"

/* Where records go. */
typedef struct {
    uint8_t *buffer;
    uint64_t buffer_bytes;
    uint64_t page_bytes;     /* what the page has already, */
    uint64_t page_bytes_max; /* what it may have, unless one record alone is longer, */
    uint64_t page_records;   /* and how many records it has */
} jfs_page_room;

/* Whether a text may be too long for a record; that may also be said of one that is not but has many bytes for few
 * characters.
 */
int jfs_texts_too_long(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count);

/* Makes a record for every stretch, none of which is too long, and goes on where `progress`, zeroed before the first
 * call, says; its steps are not used. A transaction of 0 is none. JFS_FULL: with needed_bytes, the buffer has less room
 * than that for the next record; with 0 of them, the page has none. *used says how much was made.
 */
jfs_status jfs_page_texts(const jfs_page_room *room, const jfs_text_batch *batch, const uint8_t *bytes,
                          const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress, uint64_t *used);

#endif
