/* app/dispatcher/exposure.h — whom a server lets in that is not on this machine.
 *
 * Said once in the log, and on the status page, where `anyserve doctor` reads it.
 */
#ifndef AS_APP_EXPOSURE_H
#define AS_APP_EXPOSURE_H

#include "app/dispatcher/dispatcher.h"
#include "base/log.h"
#include "edge/admin/status_page.h"

/* A listener for clients counts if its address is beyond the loopback. The descriptors are open. */
struct as_status_page_exposure as_exposure_of(const struct as_dispatcher_fds *fds,
                                              const struct as_option_set *o);
/* Logs `open_to_others` if there is something to warn of. */
void as_exposure_log(const struct as_status_page_exposure *e, const struct as_log *log);

#endif
