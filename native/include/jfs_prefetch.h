/* Asking the kernel for bytes before they are rendered. */
#ifndef JFS_PREFETCH_H
#define JFS_PREFETCH_H

#include <stdint.h>

#include "jfs_lines.h"

/*
 * Begins to read from the disk what rendering positions from..to of the lines will look at. Waits for nothing, and
 * what cannot be asked for is simply read later; large-message bodies are left to the rendering.
 */
void jfs_lines_prefetch(const jfs_lines *lines, uint64_t from, uint64_t to);

#endif
