/* Messages as `artemis data exp` writes them. */
#ifndef JFS_XML_H
#define JFS_XML_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

enum { JFS_XML_LEFT_OUT = -1 }; /* instead of a text's number: this message gets no element here */

typedef struct {
    const jfs_line *lines;
    const int64_t *ids;
    uint64_t count;
    const uint8_t *texts;     /* elements of queues, one text after another */
    const uint32_t *starts;   /* where each text begins, and the last one's end */
    const int32_t *numbers;   /* of each message, the text that it gets; NULL: all get the first */
} jfs_xml_messages;

/*
 * Elements of messages from number *next on, and in *next the number of the first that has none: it is anything but usual
 * (large, of another protocol, damaged, with numbers that Java prints its own way or characters that XML cannot have),
 * or there was no room left for it. If *written is 0, it is the caller's. JFS_TORN: nothing of *written counts.
 */
jfs_status jfs_xml_elements(const jfs_xml_messages *messages, uint64_t *next, uint8_t *out, uint64_t capacity,
                            uint64_t *written);

#endif
