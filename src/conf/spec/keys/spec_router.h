/* conf/spec/keys/spec_router.h — the key `request_router_config`: how a replica is chosen. Pure. */
#ifndef AS_CONF_SPEC_ROUTER_H
#define AS_CONF_SPEC_ROUTER_H

#include "base/buf.h"
#include "wire/frame/frame_router.h"

/* Reads the JSON of `request_router_config`. 0; AS_EINVALID with what is wrong with it, key and
 * value, in `why`. A class of the program (its name has ':' or '.') has arguments of its own, which
 * are not checked, and *ret_r then has no policy; Ray Serve's own default class is no policy
 * either. */
int as_spec_read_router(const char *json, struct as_frame_router *ret_r, struct as_buf *why);

#endif
