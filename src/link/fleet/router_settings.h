/* link/fleet/router_settings.h — the router of a deployment: what it declares
 * (wire/frame/frame_router) over what the server has. Pure.
 */
#ifndef AS_LINK_ROUTER_SETTINGS_H
#define AS_LINK_ROUTER_SETTINGS_H

#include "core/dispatch/choice/router_conf.h"
#include "wire/frame/frame_router.h"

/* Sets what `r` has in *c; the rest stays, and so does the policy if r has an unknown one. */
void as_router_settings_apply(const struct as_frame_router *r, struct as_router_conf *c);

#endif
