/* Names of user record types (docs/format/messages.md, "User records" and "Bindings journal"). */
#include "jfs_recordview.h"

#include <stddef.h>

const char *jfs_user_type_name(int user_type) {
    enum { FIRST = 20, LAST = 54 };
    static const char *const names[LAST - FIRST + 1] = {
        [20 - FIRST] = "GROUP_RECORD",
        [21 - FIRST] = "QUEUE_BINDING",
        [22 - FIRST] = "QUEUE_STATUS",
        [24 - FIRST] = "ID_COUNTER",
        [25 - FIRST] = "ADDRESS_SETTING",
        [26 - FIRST] = "SECURITY_SETTING",
        [27 - FIRST] = "DIVERT",
        [28 - FIRST] = "BRIDGE",
        [29 - FIRST] = "ADD_LARGE_MESSAGE_PENDING",
        [30 - FIRST] = "ADD_LARGE_MESSAGE",
        [31 - FIRST] = "ADD_MESSAGE",
        [32 - FIRST] = "ADD_REF",
        [33 - FIRST] = "ACKNOWLEDGE_REF",
        [34 - FIRST] = "UPDATE_DELIVERY_COUNT",
        [35 - FIRST] = "PAGE_TRANSACTION",
        [36 - FIRST] = "SET_SCHEDULED_DELIVERY_TIME",
        [37 - FIRST] = "DUPLICATE_ID",
        [38 - FIRST] = "HEURISTIC_COMPLETION",
        [39 - FIRST] = "ACKNOWLEDGE_CURSOR",
        [40 - FIRST] = "PAGE_CURSOR_COUNTER_VALUE",
        [41 - FIRST] = "PAGE_CURSOR_COUNTER_INC",
        [42 - FIRST] = "PAGE_CURSOR_COMPLETE",
        [43 - FIRST] = "PAGE_CURSOR_PENDING_COUNTER",
        [44 - FIRST] = "ADDRESS_BINDING",
        [45 - FIRST] = "ADD_MESSAGE_PROTOCOL",
        [46 - FIRST] = "ADDRESS_STATUS",
        [47 - FIRST] = "USER",
        [48 - FIRST] = "ROLE",
        [49 - FIRST] = "ADD_MESSAGE_BODY",
        [50 - FIRST] = "KEY_VALUE_PAIR",
        [51 - FIRST] = "CONNECTOR",
        [52 - FIRST] = "ADDRESS_SETTING_JSON",
        [53 - FIRST] = "ACK_RETRY",
        [54 - FIRST] = "MQTT_PACKET_ID_CORRELATION",
    };
    if (user_type < FIRST || user_type > LAST) return NULL;
    return names[user_type - FIRST];
}
