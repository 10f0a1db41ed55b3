/* Records and pages of HornetQ and Artemis 1.x, written anew in the current format. */
#ifndef JFS_OLDER_H
#define JFS_OLDER_H

#include <stdint.h>

#include "jfs_scan.h"
#include "jfs_status.h"

enum {
    JFS_OLDER_RENAME = 1,    /* names of properties, addresses and destinations become those of 2.x */
    JFS_OLDER_RECOVER = 2,   /* only messages, their references and page transactions, as if all were sent and none acknowledged */
    JFS_OLDER_UNSCHEDULED = 8, /* messages of the journal do not say themselves when they are due: a record does */
    JFS_OLDER_UNROUTED = 4   /* pages: records name no queues (HornetQ 2.1); `routes` does */
};

/* Bytes made; free them with jfs_older_free. */
typedef struct {
    uint8_t *bytes;
    uint64_t size;
    uint64_t capacity;
    uint64_t whole;       /* journals: behind the last record that is complete */
    uint32_t messages;
    uint32_t undecoded;   /* messages that are not what their place requires: kept as they are */
    uint64_t damaged_at;  /* pages: where something lies that is no record, UINT64_MAX: nowhere */
} jfs_older_out;

/* How many records each transaction has in the file that is read and in the one that is written. */
typedef struct jfs_older_counts jfs_older_counts;

jfs_status jfs_older_counts_new(jfs_older_counts **out);
void jfs_older_counts_free(jfs_older_counts *counts);
void jfs_older_next_source(jfs_older_counts *counts);
void jfs_older_next_output(jfs_older_counts *counts);

typedef struct {
    uint64_t room_bytes; /* of the file that is written; the first record goes in whatever its length if it is empty */
    int32_t rid;         /* low 31 bits of the file id that the records get */
    uint32_t flags;      /* JFS_OLDER_* */
    uint32_t next;       /* the record to begin with; then the one that no room was left for, or how many there are */
    uint8_t empty;       /* the file that is written holds no record yet */
} jfs_older_place;

/*
 * Appends records of a scan to *out in the layout of version 2, as many as there is room for. A message of type 31
 * becomes one of type 45; one of type 45 or 30 is written anew as the flags say; what a record's kind or type is else,
 * it is copied. A count of COMMIT and PREPARE that was right is right in the new file, and one that was wrong stays
 * wrong. *out begins as zeros. JFS_TORN: call again with the same `place` and `out` to go on.
 */
jfs_status jfs_older_journal(jfs_older_counts *counts, const uint8_t *bytes, const jfs_scan *scan,
                             jfs_older_place *place, jfs_older_out *out);

/* Rows of a journal's table: columns of `count`, and where the bytes are that they hold. */
typedef struct {
    int64_t *id;
    int64_t *kind;
    int64_t *tx;
    int64_t *user_type;
    uint64_t *offset;       /* of a row's `record`, of a PREPARE that of its `txdata` */
    uint32_t *length;
    const uint8_t *bodies;
    uint64_t body_bytes;
    uint32_t count;
} jfs_older_rows;

/*
 * Takes apart `count` rows as PostgreSQL copies them in its binary format, each with id, recordtype, txid,
 * userrecordtype, record, txdata and seq, and nothing else: the columns of *rows, and `seq`, have room for so many.
 * JFS_MALFORMED: one is not as brokers write them, or has an id or tx beyond `id_max`.
 */
jfs_status jfs_older_copied(const uint8_t *bytes, uint64_t size_bytes, int64_t id_max, jfs_older_rows *rows,
                            int64_t *seq);

/*
 * Appends the records that rows say, as many as there is room for. An ADD of what only changes a message is an UPDATE.
 * JFS_MALFORMED: a row is no record, or the lengths are not those of `bodies`.
 */
jfs_status jfs_older_table(jfs_older_counts *counts, const jfs_older_rows *rows, jfs_older_place *place,
                           jfs_older_out *out);

/*
 * Appends a page of the older layout. Every record keeps its number: what cannot be read becomes one record that is in
 * no queue. With JFS_OLDER_UNROUTED record i is for the queues routes[starts[i]] to routes[starts[i + 1]], where i is
 * below `routed`, and for none otherwise.
 */
jfs_status jfs_older_page(const uint8_t *bytes, uint64_t size_bytes, uint32_t flags, const int64_t *routes,
                          const uint32_t *starts, uint32_t routed, jfs_older_out *out);
void jfs_older_free(jfs_older_out *out);

#endif
