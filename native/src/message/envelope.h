/* The envelope line's parts (docs/reference/envelope.md). */
#ifndef JFS_ENVELOPE_H
#define JFS_ENVELOPE_H

#include "message.h"

/* Everything from `,"address"` up to, not including, the closing brace. */
void jfs_put_tail(jfs_sink *sink, const jfs_message *message);
/* What depends on the queue: `,"deliveryCount":` and `,"scheduledTime":`. */
void jfs_put_line_state(jfs_sink *sink, const jfs_line *line);

/* line.c: everything of a line around its tail. */
uint64_t jfs_line_frame_bytes(const jfs_line *line, uint64_t prefix_bytes);

/* amqp_envelope.c */
void jfs_put_amqp_object(jfs_sink *sink, const jfs_message *message);
/* properties, propertyTypes: from the application properties. */
void jfs_put_amqp_properties(jfs_sink *sink, const jfs_message *message);
/* body or body_base64, where the body is text or bytes. */
void jfs_put_amqp_body(jfs_sink *sink, const jfs_message *message);
/* userId, groupId */
void jfs_put_amqp_user_id(jfs_sink *sink, const jfs_message *message);
void jfs_put_amqp_group(jfs_sink *sink, const jfs_message *message);
/* [[...],...] */
void jfs_put_sequences(jfs_sink *sink, jfs_view body);
/* All data sections as one base64 text, without quotes. */
void jfs_put_data_base64(jfs_sink *sink, const jfs_message *message);

/* bodyfile.c: the content of a message's own file. */
void jfs_put_body_file(jfs_sink *sink, const jfs_message *message);
/* classify.c: its suffix. */
uint8_t jfs_body_suffix(const jfs_message *message);

#endif
