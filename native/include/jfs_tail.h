/* The end of a journal in the hands of who publishes texts without Python: all that a writer and its committer know of
 * it, for as long as nobody else stages anything. What was staged is made durable by the same call.
 */
#ifndef JFS_TAIL_H
#define JFS_TAIL_H

#include <stdint.h>

#include "jfs_checksum.h"
#include "jfs_io.h"
#include "jfs_ledger.h"
#include "jfs_stage_texts.h"

enum { JFS_TAIL_TEXTS_MAX = 256, JFS_TAIL_LEFT = -1 };

/* Where texts go that are alike. */
typedef struct {
    jfs_text_batch *batch; /* what they have in common; ids, times and the turn are filled in */
    int64_t expires_ms;    /* so long after they came; -1: never */
    int64_t room_bytes;    /* what may still be taken, counted as limits count: the one that passes it is the last */
    int64_t room_messages;
    uint64_t each_bytes;   /* what a message counts beside twice its text */
    uint64_t messages;     /* taken since the tail was lent, */
    uint64_t bytes;        /* and what they count */
    uint64_t turn;
    int32_t open;          /* 0: they are not taken here now */
} jfs_tail_way;

/* Fills the seam to a disk that is none: returns an errno. */
typedef int32_t (*jfs_tail_write)(void *context, uint64_t length);

typedef struct {
    jfs_stage *stage;
    jfs_ledger *ledger;
    const jfs_io *io;
    uint8_t *map;
    const char *path;        /* which has to lead to that file after each flush; NULL: nobody else is at it */
    jfs_tail_write write;    /* instead of `io`, if not NULL */
    jfs_tail_write log;      /* what has to be done before; NULL: nothing. May return JFS_TAIL_LEFT, too */
    void *context;
    jfs_checksum_place place;
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;     /* of the file, */
    uint64_t whole_bytes;    /* and in whole blocks */
    uint64_t alignment_bytes;
    uint64_t buffer_bytes;   /* of records in a flush */
    uint64_t spared_bytes;   /* which a checksum needs */
    uint64_t shared_bytes_max; /* of lines in a flush */
    uint64_t quick_ns_max;   /* of flushes, on average; above, and after one that took `stall_ns`, nothing is taken */
    uint64_t stall_ns;
    int64_t now_ms;          /* -1: as the clock says */
    int64_t id_last;         /* the id drawn last */
    int64_t id_end;          /* ids below may be drawn */
    uint64_t step_last;      /* of user ids */
    int64_t room_bytes;      /* of all ways together */
    int64_t room_messages;
    uint64_t records;        /* staged since it was lent */
    uint64_t flushed_records; /* those that are durable */
    uint64_t flushes;
    uint64_t written_bytes;
    uint64_t flush_ns;       /* a moving average */
    uint64_t slowest_ns;
    uint64_t end;            /* where the next flush begins, */
    uint64_t records_end;    /* and where records end */
    int32_t directory;       /* from where `path` leads */
    int32_t fd;
    int32_t durable;
    int32_t checksums;
    int32_t error;           /* an errno: what is on the disk is not known any more */
    int32_t stopped;         /* set in any thread: nothing more is taken */
} jfs_tail;

/* Stages the texts that lines are, all of them or nothing. JFS_FULL: they may fit after a flush, if something is staged.
 * JFS_RANGE: they are not for here. All else: nothing is taken any more, and a flush says so.
 */
jfs_status jfs_tail_stage(jfs_tail *tail, jfs_tail_way *way, const uint8_t *lines, uint64_t length);

/* Writes what is staged, durably, and begins an empty buffer. Returns 0 or an errno; then nothing more is taken. Below
 * 0: nor is it, and whoever lent it goes on with what is staged.
 */
int32_t jfs_tail_flush(jfs_tail *tail);

#endif
