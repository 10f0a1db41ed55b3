/* What a selector said of messages: two bits each, by message id. Ids may be any; near ones share their place. */
#ifndef JFS_VERDICTS_H
#define JFS_VERDICTS_H

#include <stdint.h>

#include "jfs_select.h"
#include "jfs_status.h"

typedef struct jfs_verdicts jfs_verdicts;

jfs_status jfs_verdicts_new(jfs_verdicts **out);
void jfs_verdicts_free(jfs_verdicts *verdicts);

/* Notes JFS_VERDICT_NO and _YES; of an id with _ASK nothing is known still. */
jfs_status jfs_verdicts_note(jfs_verdicts *verdicts, const int64_t *ids, const uint8_t *said, uint32_t count);

/* said[i]: what was noted of ids[i], or JFS_VERDICT_ASK. Returns how many of these there are. */
uint32_t jfs_verdicts_of(const jfs_verdicts *verdicts, const int64_t *ids, uint32_t count, uint8_t *said);

/* Copies those of `values` of which `said` is `which`. Returns how many. `out` has room for `count`. */
uint32_t jfs_verdicts_choose(const uint8_t *said, const uint32_t *values, uint32_t count, uint8_t which, uint32_t *out);

uint64_t jfs_verdicts_bytes(const jfs_verdicts *verdicts);

/* Messages of which something is known. */
uint64_t jfs_verdicts_count(const jfs_verdicts *verdicts);

#endif
