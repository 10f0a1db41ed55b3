/* Which decoder a payload belongs to. */
#include "message.h"

/* What is overwritten may say another id, or none: the one of the record is what it is listed and acknowledged by. */
static void name_by_record(jfs_message *message, int64_t record_id) {
    if (message->has & JFS_HAS_ID) message->irregular = 1;
    message->misnamed = 1;
    message->id = record_id;
    message->has |= JFS_HAS_ID;
}

void jfs_message_parse(const jfs_line *line, jfs_arena *arena, jfs_message *message) {
    memset(message, 0, sizeof *message);
    message->arena = arena;
    message->payload = (jfs_view){line->payload, line->payload_bytes};
    if (line->large != NULL) message->large = (jfs_view){line->large, line->large_bytes};
    message->large_size = -1;
    message->priority = 4;
    jfs_reader reader = jfs_reader_over(message->payload);
    if (line->source & JFS_SOURCE_UNREADABLE) jfs_damaged(message, "a part of the message cannot be read from the disk");
    if (line->source & JFS_SOURCE_CORE_LARGE) {
        jfs_core_parse(message, &reader);
    } else {
        message->persister = jfs_take8(&reader);
        if (reader.bad)
            jfs_damaged(message, "the message is empty");
        else if (message->persister <= 1)
            jfs_core_parse(message, &reader);
        else if (message->persister == 4)
            jfs_amqp_large_parse(message, &reader);
        else if (message->persister <= 5)
            jfs_amqp_parse(message, &reader);
        else
            jfs_damaged(message, "the message is of an unknown kind");
    }
    if (line->record_id != 0 && line->record_id != message->id) name_by_record(message, line->record_id);
    if (line->large_missing) jfs_incomplete(message, "the large body's file is missing or too short");
}
