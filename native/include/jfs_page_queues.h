/* What a page holds for each queue. */
#ifndef JFS_PAGE_QUEUES_H
#define JFS_PAGE_QUEUES_H

#include <stdint.h>

#include "jfs_page.h"
#include "jfs_status.h"

typedef struct {
    int64_t queue_id;
    uint64_t line_bytes; /* of its records' lines without their prefixes, when all of them are due */
    uint32_t records;    /* that were routed to it */
    uint32_t newest;     /* number of the last of them */
} jfs_page_queue;

/*
 * Fills out[0..*count) in the order in which the page names the queues first. Lines of large messages are right once
 * their measures are. JFS_FULL: there are *count of them, which is more than `capacity`.
 */
jfs_status jfs_page_queues(const jfs_page *page, jfs_page_queue *out, uint32_t capacity, uint32_t *count);

#endif
