/* app/commands/keys.h — `anyserve keys`: adds, lists and revokes the API keys of a file.
 *
 * It needs no running server: a server with --api-keys reads the file again when it changes. A key
 * is printed once, when it is made, and is in no file. Blocking calls.
 */
#ifndef AS_APP_KEYS_H
#define AS_APP_KEYS_H

#include "conf/option/option.h"

int as_keys_main(struct as_option_set *opts); /* exit code */

#endif
