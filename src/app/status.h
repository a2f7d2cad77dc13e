/* app/status.h — `anyserve status`: asks a running server over its unix socket and prints the
 * answer. */
#ifndef AS_APP_STATUS_H
#define AS_APP_STATUS_H

#include "ctl/option.h"

int as_status_main(const struct as_option_set *opts); /* the exit code */

#endif
