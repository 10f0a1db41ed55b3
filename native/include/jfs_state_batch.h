/* Questions about many references at once, and carrying parts from one state to another. */
#ifndef JFS_STATE_BATCH_H
#define JFS_STATE_BATCH_H

#include <stdint.h>

#include "jfs_state.h"
#include "jfs_status.h"

/* Sets used[slot] for each file slot below file_count in which one of the references' messages lies. */
jfs_status jfs_state_ref_files(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *used,
                               uint32_t file_count);

/* Positions within refs of messages that have a large-message file. `out` has room for `count`. */
jfs_status jfs_state_large_refs(const jfs_state *state, const uint32_t *refs, uint32_t count, uint32_t *out,
                                uint32_t *found);

/* Where messages are in a queue: refs[i] is JFS_NONE for one that is not there, and scheduled_ms[i] says when it is due
 * (record type 36; 0: no such time). `include` is JFS_INCLUDE_LIVE or JFS_INCLUDE_ALL.
 */
jfs_status jfs_state_places(const jfs_state *state, uint32_t slot, int include, const int64_t *ids, uint32_t count,
                            uint32_t *refs, int64_t *scheduled_ms);

/* Keeps messages out of sight as if a prepared transaction had acknowledged them in a queue, or shows them again. It is
 * not in the journal: whoever says so says it again to another state, and shows them before this one is saved.
 */
jfs_status jfs_state_keep_aside(jfs_state *state, uint32_t slot, const int64_t *ids, uint32_t count, int aside);

/* flags[i]: what is known of the message of refs[i] (JFS_MESSAGE_*); 0 for JFS_NONE. */
jfs_status jfs_state_message_flags(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *flags);

enum { JFS_UNREFERENCED = 1, JFS_UNREFERENCED_LARGE = 2 };

/* found[i]: JFS_UNREFERENCED if the message is in no queue, with JFS_UNREFERENCED_LARGE if it may have a large-message
 * file, which is said of unknown messages too; else 0.
 */
void jfs_state_unreferenced(const jfs_state *state, const int64_t *ids, uint32_t count, uint8_t *found);

/* Says that bytes [from, to) of a file cannot be read: messages whose records hold any of them are to be measured again
 * and are damaged. May be said again, for messages that came since.
 */
jfs_status jfs_state_unreadable(jfs_state *state, uint32_t file_slot, uint64_t from, uint64_t to);

/* Gives what is live in both states the place, the part and the sealed values it had in `old`; the rest comes behind,
 * in the tail. `state` is finished and measured. JFS_RANGE: it has parts already.
 */
jfs_status jfs_state_adopt(jfs_state *state, const jfs_state *old);

/* The ids of a part's messages in a few bytes, for jfs_state_keep_part. `out` has room for ten bytes each. */
jfs_status jfs_state_part_ids(const jfs_state *state, uint32_t slot, uint32_t number, uint8_t *out, uint64_t capacity,
                              uint64_t *size_bytes);

/* Puts those of these messages that are in the tail, or in a part with a lower number, into a part of the number and
 * time of `info`. Does nothing if the queue has used the number. `state` is finished and measured. JFS_MALFORMED: the
 * ids are cut off; those before count.
 */
jfs_status jfs_state_keep_part(jfs_state *state, uint32_t slot, const jfs_part_info *info, const uint8_t *ids,
                               uint64_t size_bytes);

#endif
