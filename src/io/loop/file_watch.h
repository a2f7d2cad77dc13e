/* io/loop/file_watch.h — reports when one of a set of files is written, replaced or removed, or
 * gets another mode or owner.
 *
 * It watches their folders (inotify) and compares names, because editors replace a file by a new
 * one. Of a path with symbolic links each link is watched where it lies, and the file where they
 * lead: whoever changes the file may name it without them (`anyserve keys` does), and mounted
 * secrets change by a link `..data` (Kubernetes, "Secrets"). Links are followed when the set is
 * made, so make it again after a change. A file may be created later, but its folder must exist.
 * Several changes may be reported as one, and one as several. Thread: any one until it is started,
 * then the loop's.
 */
#ifndef AS_IO_FILE_WATCH_H
#define AS_IO_FILE_WATCH_H

#include "io/loop/sock.h"

struct as_file_watch;

/* 0; AS_EIO: inotify is not available, see errno. `changed` must not close the watch. */
int as_file_watch_new(struct as_file_watch **ret_w, void (*changed)(void *ctx), void *ctx);
/* From now on the loop reports, also changes since the set was made. 0 or AS_EIO; then it can only
 * be closed. */
int as_file_watch_start(struct as_file_watch *w, struct as_loop *loop);
/* Replaces the set of files; the paths are copied. Returns how many files cannot be watched. */
uint32_t as_file_watch_set(struct as_file_watch *w, char *const *paths, uint32_t n);
/* Asynchronous; NULL is fine. */
void as_file_watch_close(struct as_file_watch *w);

#endif
