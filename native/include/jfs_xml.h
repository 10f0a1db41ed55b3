/* Messages as `artemis data exp` writes them. */
#ifndef JFS_XML_H
#define JFS_XML_H

#include <stdint.h>

#include "jfs_status.h"

/*
 * The element of one core message that is no large one: `payload` from the persister's byte on, `queues` the elements
 * of its queues. *written is 0 where the message is anything but usual (of another protocol, damaged, with numbers
 * that Java prints its own way or characters that XML cannot have), or where there is no room: it is the caller's.
 */
jfs_status jfs_xml_message(const uint8_t *payload, uint64_t payload_bytes, int64_t id, const uint8_t *queues,
                           uint64_t queues_bytes, uint8_t *out, uint64_t capacity, uint64_t *written);

#endif
