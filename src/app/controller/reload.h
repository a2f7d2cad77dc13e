/* app/controller/reload.h — `anyserve run --reload`: replaces the replicas when a file of the
 * application changes.
 *
 *   a file changes ─► no change for a moment ─► the code is described ─► the replicas are replaced,
 *   as by `anyserve restart`
 *
 * If the code cannot be loaded, the replicas that run keep serving, and the error is logged. The
 * worker program names the files to watch: those of the application, and what it imports from its
 * own folder. Thread: the controller's loop.
 */
#ifndef AS_APP_RELOAD_H
#define AS_APP_RELOAD_H

#include "app/controller/control_api.h"

struct as_reload;

/* app: what the code declared when the server started. err_fd: where tracebacks are printed. All
 * pointers must stay valid. NULL: --reload is not given, or files cannot be watched, which is
 * logged.
 */
struct as_reload *as_reload_new(struct as_loop *loop, const struct as_option_set *opts,
                                struct as_control_api *control_api, const struct as_declared *app,
                                int err_fd, const struct as_log *log);
void as_reload_close(struct as_reload *r); /* NULL is fine */

#endif
