/* How a decoder notes that a message is not whole. */
#include "message.h"

void jfs_incomplete(jfs_message *message, const char *reason) {
    if (message->damage == NULL) message->damage = reason;
}

int jfs_damaged(jfs_message *message, const char *reason) {
    jfs_incomplete(message, reason);
    message->undecoded = 1;
    return 0;
}
