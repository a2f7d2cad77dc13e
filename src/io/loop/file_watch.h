/* io/loop/file_watch.h — tells when one of some files is written, replaced or removed (inotify).
 *
 * Their folders are watched and names compared, because editors put a new file in the place of the
 * old one. A file that is not there yet counts when it comes; its folder must be there. Several
 * changes may be told as one, and one as several. Thread: the loop's.
 */
#ifndef AS_IO_LOOP_FILE_WATCH_H
#define AS_IO_LOOP_FILE_WATCH_H

#include "io/loop/sock.h"

struct as_file_watch;

/* 0; AS_EIO: the kernel has no watch left for us, errno says. changed must not close it. */
int as_file_watch_new(struct as_file_watch **ret_w, struct as_loop *loop,
                      void (*changed)(void *ctx), void *ctx);
/* From now on these, in the place of those before; paths are copied. A folder that cannot be
 * watched is left out: how many files that concerns. */
uint32_t as_file_watch_set(struct as_file_watch *w, char *const *paths, uint32_t n);
/* Asynchronous; NULL is fine. */
void as_file_watch_close(struct as_file_watch *w);

#endif
