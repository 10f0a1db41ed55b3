/* The C core's one public header. */
#ifndef JOURNALFS_H
#define JOURNALFS_H

#include "jfs_line.h"
#include "jfs_status.h"

#endif
