/* The content of a message's own file: its body as a file would hold it. */
#include "amqp.h"
#include "envelope.h"
#include "properties.h"
#include "text.h"

static void put_data(jfs_sink *sink, const jfs_message *message) {
    jfs_piece piece;
    jfs_amqp section;
    if (!jfs_piece_begin(sink, &piece, message->body.at, message->body.bytes, JFS_PIECE_RAW_CHAIN)) return;
    jfs_reader reader = jfs_reader_behind(message->body, piece.mark.source);
    for (;;) {
        jfs_piece_step(sink, &piece, (uint64_t)(reader.at - message->body.at), 0);
        if (!jfs_next_body_section(&reader, &section)) break;
        jfs_put(sink, section.bytes.at, section.bytes.bytes);
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            return;
        }
    }
    jfs_piece_end(sink, &piece);
}

static void put_value(jfs_sink *sink, const jfs_message *message) {
    jfs_amqp value = jfs_amqp_section(message, JFS_SECTION_VALUE);
    if (value.type == JFS_A_STRING || value.type == JFS_A_BINARY)
        jfs_put(sink, value.bytes.at, value.bytes.bytes);
    else
        jfs_put_amqp(sink, &value);
}

void jfs_put_body_file(jfs_sink *sink, const jfs_message *message) {
    if ((message->has & JFS_HAS_BODY) == 0) {
        /* Nothing is known of a body, so the file shows what there is. */
        const jfs_view all = message->large.at != NULL ? message->large : message->payload;
        if (!message->is_large || message->large.at != NULL) jfs_put(sink, all.at, all.bytes);
        return;
    }
    switch (message->body_kind) {
    case JFS_BODY_TEXT: jfs_put_text(sink, message->body, JFS_UTF16LE_UTF8); break;
    case JFS_BODY_RAW:
    case JFS_BODY_OBJECT: jfs_put(sink, message->body.at, message->body.bytes); break;
    case JFS_BODY_MAP: jfs_put_typed_map(sink, (jfs_entries){message->body, message->map_count}); break;
    case JFS_BODY_STREAM: jfs_put_stream(sink, message->body); break;
    case JFS_BODY_DATA: put_data(sink, message); break;
    case JFS_BODY_VALUE: put_value(sink, message); break;
    case JFS_BODY_SEQUENCE: jfs_put_sequences(sink, message->body); break;
    default: break;
    }
}
