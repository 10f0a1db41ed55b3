/* Parts of reading messages into columns. */
#ifndef JFS_COLUMNS_INTERNAL_H
#define JFS_COLUMNS_INTERNAL_H

#include "amqp.h"
#include "column.h"
#include "message.h"

/* columns_properties.c: a row of KEYS and VALUES for each property; *rows says how many. */
jfs_status jfs_put_property_rows(const jfs_message *message, jfs_columns *out, uint32_t *rows);
/* One AMQP value as text: strings and symbols as they are, all else as the envelope has it, without quotes. */
jfs_status jfs_column_amqp(jfs_column *column, const jfs_amqp *value);

#endif
