/* Whether messages still lie where a scan found them: asked by readers that open a file again by path. */
#ifndef JFS_PLACES_H
#define JFS_PLACES_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

/*
 * Finds the first of the lines, which point into one mapped file, whose payload no longer has the head of its record
 * before it: in a journal the kind, `rid` (-1: of any file), id, length and user type, in a page the opening byte and a
 * length that holds it. `count` where all have. `first_byte` is where the file is mapped: what lies before it is not
 * looked at. Lines of unreadable records have no head, and are passed over.
 */
jfs_status jfs_places_journal(const uint8_t *first_byte, int64_t rid, const jfs_line *lines, uint64_t count,
                              uint64_t *wrong);
jfs_status jfs_places_page(const uint8_t *first_byte, const jfs_line *lines, uint64_t count, uint64_t *wrong);

#endif
