/* What the handler of faults asks of bodies that are inflated when they are looked at. */
#ifndef JFS_INFLATED_INTERNAL_H
#define JFS_INFLATED_INTERNAL_H

/* 1: the byte at `address` is there now. 0: it is of no such body, or cannot be inflated. */
int jfs_inflated_fault(const void *address);

#endif
