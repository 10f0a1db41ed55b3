/* Messages of ActiveMQ 5, OpenWire in loose encoding, as records of the current format (docs/format/kahadb.md). */
#ifndef JFS_OPENWIRE_H
#define JFS_OPENWIRE_H

#include <stdint.h>

#include "jfs_older.h"
#include "jfs_status.h"

enum {
    JFS_OPENWIRE_KAHADB = 0, /* a length of 0: the offset is that of a record of KahaDB */
    JFS_OPENWIRE_AMQ = 1     /* a length of 0: the record's head before the command says it */
};

/* Where messages lie, and what they are to become: arrays of `count`, but for `starts`, which has one more. */
typedef struct {
    const uint8_t *const *files;
    const uint64_t *file_bytes;
    uint32_t file_count;
    uint32_t count;
    const uint32_t *file;
    const uint64_t *offset; /* of the command from its type on, or as the layout says */
    const uint32_t *length; /* of the command, or 0 */
    const uint32_t *address;       /* number of its address */
    const uint8_t *addresses;      /* nullable SimpleStrings, one behind the other */
    const uint32_t *address_starts; /* one more than there are addresses */
    uint32_t address_count;
    const uint32_t *starts; /* message i is for queues[starts[i]] to queues[starts[i + 1]] */
    const int64_t *queues;
    uint32_t queue_count;
    uint8_t layout;  /* JFS_OPENWIRE_* */
    uint8_t topic;   /* the addresses are multicast */
    int32_t rid;     /* low 31 bits of the file id that the records get */
    uint64_t room_bytes;      /* of the file that is written */
    uint64_t body_bytes_max;  /* longer ones are not for records */
} jfs_openwire_batch;

typedef struct {
    uint32_t next; /* the message to begin with; then the first that was not made, or how many there are */
    int64_t message_id; /* of the next one that is made */
} jfs_openwire_progress;

/*
 * Appends the records of messages to *out, which begins as zeros: each message, a reference for each queue, and how
 * often it was delivered. Ends at the first message that is anything but usual (compressed, nested, of an unknown
 * type, damaged, long), that has no room in the file, or whose bytes the disk does not give (JFS_TORN): it is the
 * caller's, who goes on behind it.
 */
jfs_status jfs_openwire_records(const jfs_openwire_batch *batch, jfs_openwire_progress *progress, jfs_older_out *out);

#endif
