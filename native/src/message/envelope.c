/* The envelope line of one message. The order of keys is fixed, so a line depends on nothing but its message. */
#include "envelope.h"

#include "properties.h"
#include "text.h"

static void put_address(jfs_sink *sink, const jfs_message *message) {
    if ((message->has & JFS_HAS_ADDRESS) == 0) return;
    JFS_PUT(sink, ",\"address\":");
    if (message->address.at == NULL)
        JFS_PUT(sink, "null");
    else
        jfs_put_string16(sink, message->address);
}

static void put_type(jfs_sink *sink, const jfs_message *message) {
    static const char *const names[] = {"default", NULL,     "object",   "text",         "bytes",
                                        "map",     "stream", "embedded", "largeEmbedded"};
    static const char *const amqp_names[] = {"amqp-data", "amqp-value", "amqp-sequence", "none"};
    const char *name = NULL;
    JFS_PUT(sink, ",\"type\":\"");
    if (message->protocol == JFS_AMQP)
        name = amqp_names[message->body_kind == JFS_BODY_DATA       ? 0
                          : message->body_kind == JFS_BODY_VALUE    ? 1
                          : message->body_kind == JFS_BODY_SEQUENCE ? 2
                                                                    : 3];
    else if (message->type <= JFS_TYPE_LARGE_EMBEDDED)
        name = names[message->type];
    if (name != NULL) {
        jfs_put(sink, name, strlen(name));
    } else {
        JFS_PUT(sink, "type-");
        jfs_put_signed(sink, (int8_t)message->type);
    }
    jfs_put_byte(sink, '"');
}

static void put_headers(jfs_sink *sink, const jfs_message *message) {
    /* An AMQP message's type is that of its body, so without one nothing is known of it. */
    if (message->protocol == JFS_CORE || (message->has & JFS_HAS_BODY)) put_type(sink, message);
    JFS_PUT(sink, ",\"durable\":");
    jfs_put_bool(sink, message->durable);
    JFS_PUT(sink, ",\"priority\":");
    jfs_put_signed(sink, (int8_t)message->priority);
    JFS_PUT(sink, ",\"timestamp\":");
    jfs_put_signed(sink, message->timestamp_ms);
    if (message->expiration_ms != 0) {
        JFS_PUT(sink, ",\"expiration\":");
        jfs_put_signed(sink, message->expiration_ms);
    }
}

static void put_core_ids(jfs_sink *sink, const jfs_message *message) {
    if (message->group.at != NULL) {
        JFS_PUT(sink, ",\"groupId\":");
        jfs_put_string16(sink, message->group);
    }
    if (message->duplicate.at != NULL && message->duplicate_raw) {
        JFS_PUT(sink, ",\"duplicateId_base64\":\"");
        jfs_put_base64(sink, message->duplicate);
        jfs_put_byte(sink, '"');
    } else if (message->duplicate.at != NULL) {
        JFS_PUT(sink, ",\"duplicateId\":");
        jfs_put_string16(sink, message->duplicate);
    }
}

static void put_core_properties(jfs_sink *sink, const jfs_message *message) {
    if (message->properties.count == 0) return;
    JFS_PUT(sink, ",\"properties\":");
    jfs_put_properties(sink, message->properties);
    if (!jfs_has_property_types(message->properties)) return;
    JFS_PUT(sink, ",\"propertyTypes\":");
    jfs_put_property_types(sink, message->properties);
}

static void put_core_body(jfs_sink *sink, const jfs_message *message) {
    switch (message->body_kind) {
    case JFS_BODY_NULL: JFS_PUT(sink, ",\"body\":null"); break;
    case JFS_BODY_TEXT:
        JFS_PUT(sink, ",\"body\":");
        jfs_put_string16(sink, message->body);
        break;
    case JFS_BODY_MAP:
        JFS_PUT(sink, ",\"body\":");
        jfs_put_typed_map(sink, (jfs_entries){message->body, message->map_count});
        break;
    case JFS_BODY_STREAM:
        JFS_PUT(sink, ",\"body\":");
        jfs_put_stream(sink, message->body);
        break;
    default:
        JFS_PUT(sink, ",\"body_base64\":\"");
        jfs_put_base64(sink, message->body);
        jfs_put_byte(sink, '"');
        break;
    }
}

/* What only some messages have and no other key carries. */
static void put_extras(jfs_sink *sink, const jfs_message *message) {
    if (message->protocol != JFS_AMQP) return;
    if (message->extra.count > 0 && !message->extra_is_address) {
        JFS_PUT(sink, ",\"extraProperties\":");
        jfs_put_typed_map(sink, message->extra);
    }
    if (message->message_format != 0) {
        JFS_PUT(sink, ",\"messageFormat\":");
        jfs_put_signed(sink, message->message_format);
    }
    if (message->persister != 5 && message->persister != 4) {
        JFS_PUT(sink, ",\"persister\":");
        jfs_put_unsigned(sink, message->persister);
    }
}

static void put_damage(jfs_sink *sink, const jfs_message *message) {
    if (message->damage != NULL) {
        JFS_PUT(sink, ",\"damage\":\"");
        jfs_put(sink, message->damage, strlen(message->damage));
        jfs_put_byte(sink, '"');
    }
    if (!message->undecoded && !message->irregular) return;
    JFS_PUT(sink, ",\"message_base64\":\"");
    jfs_put_base64(sink, message->payload);
    jfs_put_byte(sink, '"');
    /* A core body is whole in body_base64 even when it cannot be decoded; an AMQP encoding has no such place. */
    if (message->large.at == NULL || message->protocol != JFS_AMQP) return;
    JFS_PUT(sink, ",\"large_base64\":\"");
    jfs_put_base64(sink, message->large);
    jfs_put_byte(sink, '"');
}

void jfs_put_tail(jfs_sink *sink, const jfs_message *message) {
    const int amqp = message->protocol == JFS_AMQP;
    put_address(sink, message);
    if (message->has & JFS_HAS_ID) {
        JFS_PUT(sink, ",\"id\":");
        jfs_put_signed(sink, message->id);
    }
    if (message->user_id.at != NULL) {
        JFS_PUT(sink, ",\"userId\":\"");
        jfs_put_uuid(sink, message->user_id.at);
        jfs_put_byte(sink, '"');
    }
    if (amqp) {
        jfs_put_amqp_user_id(sink, message);
        JFS_PUT(sink, ",\"protocol\":\"AMQP\"");
    } else {
        JFS_PUT(sink, ",\"protocol\":\"CORE\"");
    }
    if (message->has & JFS_HAS_HEADER) {
        put_headers(sink, message);
        if (amqp)
            jfs_put_amqp_group(sink, message);
        else
            put_core_ids(sink, message);
        if (message->is_large) JFS_PUT(sink, ",\"largeMessage\":true");
        if (amqp)
            jfs_put_amqp_properties(sink, message);
        else
            put_core_properties(sink, message);
    }
    if (amqp) {
        if (message->has & JFS_HAS_BODY) jfs_put_amqp_body(sink, message);
        jfs_put_amqp_object(sink, message);
    } else if (message->has & JFS_HAS_BODY) {
        put_core_body(sink, message);
    }
    put_extras(sink, message);
    put_damage(sink, message);
}

void jfs_put_line_state(jfs_sink *sink, const jfs_line *line) {
    if (line->delivery_count != 0) {
        JFS_PUT(sink, ",\"deliveryCount\":");
        jfs_put_signed(sink, line->delivery_count);
    }
    if (line->scheduled_ms != 0) {
        JFS_PUT(sink, ",\"scheduledTime\":");
        jfs_put_signed(sink, line->scheduled_ms);
    }
}
