/* Between scan.c (finding records) and scan_gaps.c (saying what lies between them). */
#ifndef JFS_SCAN_INTERNAL_H
#define JFS_SCAN_INTERNAL_H

#include "jfs_scan.h"

/* What one attempt to read a record at a position found. */
typedef struct {
    uint64_t claimed_bytes; /* extent that a head of this file claims, 0 if it claims none that fits */
    uint8_t looks_begun;    /* kind and file id are right, the rest is not */
    uint8_t mark;           /* counts as data (journal.md, 2.2) */
} scan_attempt;

/* True and *out filled if a valid record lies at `at`; else *attempt says how far it looked like one. */
int scan_record(const uint8_t *bytes, uint64_t at, const jfs_scan_options *options, jfs_record *out,
                scan_attempt *attempt);

/* What lies between two records, and behind the last. Appends to scan->gaps. */
jfs_status scan_gap_between(jfs_scan *scan, const uint8_t *bytes, uint64_t from, uint64_t to,
                            const jfs_scan_options *options);
jfs_status scan_gap_behind(jfs_scan *scan, const uint8_t *bytes, uint64_t from, const jfs_scan_options *options);

#endif
