/* A core message once more, for another address: docs/format/messages.md, "Core". */
#ifndef JFS_MESSAGE_COPY_H
#define JFS_MESSAGE_COPY_H

#include "jfs_stage_copies.h"

/* Whether it is one of those of which jfs_stage_copies makes copies. Reads its bytes, as message_copy_put does. */
int message_copy_possible(const jfs_copies *copies, const jfs_line *line);

/* Length of a copy, or more. */
uint64_t message_copy_bytes_at_most(const jfs_copies *copies, const jfs_line *line);

/* Makes the copy, of message `id`. JFS_MALFORMED: it cannot be taken apart. */
jfs_status message_copy_put(const jfs_copies *copies, const jfs_line *line, int64_t id, int64_t copy_id, uint8_t *to,
                            uint32_t *bytes);

#endif
