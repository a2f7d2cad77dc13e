/* app/status.h — `anyserve status` and `anyserve workers`: ask a running server over its unix
 * socket and print the answer. */
#ifndef AS_APP_STATUS_H
#define AS_APP_STATUS_H

#include "ctl/option.h"

/* page: of the status listener, "/status"; --json decides its form. The exit code. */
int as_status_main(const struct as_option_set *opts, const char *page);

#endif
