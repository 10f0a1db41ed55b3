/* Columns of a listing and schedules of a page's records, many at once. */
#ifndef JFS_PAGE_LISTING_H
#define JFS_PAGE_LISTING_H

#include <stdint.h>

#include "jfs_page.h"
#include "jfs_state.h"
#include "jfs_status.h"

/* Fills the columns for the given records. JFS_RANGE: there is no such record. */
jfs_status jfs_page_listing(const jfs_page *page, const uint32_t *numbers, uint32_t count, const jfs_listing *out);

/* times_ms[i]: the schedule that record numbers[i] has of its own if it is later than now_ms, else 0. */
jfs_status jfs_page_schedules(const jfs_page *page, const uint32_t *numbers, uint32_t count, int64_t now_ms,
                              int64_t *times_ms);

#endif
