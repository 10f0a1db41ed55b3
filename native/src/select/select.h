/* What judging shares: the values that names have in one message, and matching text. */
#ifndef JFS_SELECT_INTERNAL_H
#define JFS_SELECT_INTERNAL_H

#include "jfs_select.h"
#include "message.h"

enum { JFS_USER_ID_BYTES = 2 * (3 + 36) };

/* Fills in a register for each name of the program. `user_id` has room for JFS_USER_ID_BYTES. */
void jfs_select_load(const jfs_select_program *program, const jfs_message *message, uint8_t *user_id,
                     jfs_select_value *registers);

/* Work done on one text, in characters; matching ends early, as if there were no match, once `stop` is set. */
typedef struct {
    uint64_t done;
    const volatile int32_t *stop;
    int stopped;
} jfs_select_work;

/* A whole text against a pattern: characters, JFS_LIKE_ONE and JFS_LIKE_ANY. */
int jfs_select_like(const jfs_select_value *text, const int32_t *pattern, uint32_t count, jfs_select_work *work);

#endif
