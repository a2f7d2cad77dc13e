/* io/loop/file_watch.h — reports when one of a set of files is written, replaced or removed.
 *
 * It watches their folders (inotify) and compares names, because editors replace a file by a new
 * one. A file may be created later, but its folder must exist. Several changes may be reported as
 * one, and one as several. Thread: the loop's.
 */
#ifndef AS_IO_FILE_WATCH_H
#define AS_IO_FILE_WATCH_H

#include "io/loop/sock.h"

struct as_file_watch;

/* 0; AS_EIO: inotify is not available, see errno. `changed` must not close the watch. */
int as_file_watch_new(struct as_file_watch **ret_w, struct as_loop *loop,
                      void (*changed)(void *ctx), void *ctx);
/* Replaces the set of files; the paths are copied. Returns how many files cannot be watched. */
uint32_t as_file_watch_set(struct as_file_watch *w, char *const *paths, uint32_t n);
/* Asynchronous; NULL is fine. */
void as_file_watch_close(struct as_file_watch *w);

#endif
