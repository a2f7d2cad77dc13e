/* app/controller/reload.h — `anyserve run --reload`: replaces the replicas when a file of the
 * application changes.
 *
 *   a file changes ─► it is quiet for a moment ─► the code is asked what it declares ─► the
 *   replicas are replaced, as by `anyserve restart`
 *
 * Where the code cannot be loaded the replicas that run go on, and that is said. The files are
 * those that the worker program names: the application's and what it imports from beside it.
 * Thread: the controller's loop.
 */
#ifndef AS_APP_RELOAD_H
#define AS_APP_RELOAD_H

#include "app/controller/control_api.h"

struct as_reload;

/* app: what the code declared when the server started. err_fd: where tracebacks are printed. All
 * pointers are kept. NULL: --reload is not given, or files cannot be watched, which is logged. */
struct as_reload *as_reload_new(struct as_loop *loop, const struct as_option_set *opts,
                                struct as_control_api *orders, const struct as_declared *app,
                                int err_fd, const struct as_log *log);
void as_reload_close(struct as_reload *r); /* NULL is fine */

#endif
