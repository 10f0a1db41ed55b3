/* The C core's one public header. */
#ifndef JOURNALFS_H
#define JOURNALFS_H

#include "jfs_checksum.h"
#include "jfs_crc32c.h"
#include "jfs_encode.h"
#include "jfs_guard.h"
#include "jfs_io.h"
#include "jfs_ledger.h"
#include "jfs_line.h"
#include "jfs_recordview.h"
#include "jfs_page.h"
#include "jfs_prefetch.h"
#include "jfs_lines.h"
#include "jfs_scan.h"
#include "jfs_stage.h"
#include "jfs_state.h"
#include "jfs_state_explain.h"
#include "jfs_status.h"

#endif
