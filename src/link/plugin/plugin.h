/* link/plugin/plugin.h — request routers in C that the dispatcher has loaded
 * (include/anyserve/router.h): loading, and asking one for a request.
 *
 * Thread: loading at the start of the process; the rest on the dispatch loop.
 */
#ifndef AS_LINK_PLUGIN_H
#define AS_LINK_PLUGIN_H

#include <anyserve/router.h>
#include "base/err.h"
#include "base/str.h"
#include "core/dispatch/deployment.h"
#include "core/route/plugin_list.h"

/* Loads a shared object; it stays loaded. AS_EINVALID, and why (n bytes) says what is wrong: it
 * cannot be loaded, has another ABI, lacks a function, or the name is taken. AS_EFULL: there are
 * AS_PLUGINS_MAX. */
int as_plugin_load(struct as_str name, const char *path, char *why, size_t n);
/* Loads all of a valid list (core/route/plugin_list.h); stops at the first error. */
int as_plugin_load_all(struct as_str list, char *why, size_t n);
/* The plugin of that name; NULL: none was loaded. */
const struct as_router_plugin *as_plugin_find(struct as_str name);

/* Asks p for a replica for q. scratch: grown as needed, to be freed by the caller; *cap is its
 * size. False: it has no valid choice. */
struct as_plugin_scratch {
    struct as_router_replica *replicas;
    struct as_replica **of;
    uint32_t cap;
};
/* Asks p for a replica for q. body: the first bytes of its body, or nothing. False: it has no valid
 * choice. */
bool as_plugin_choose(const struct as_router_plugin *p, void *state,
                      struct as_plugin_scratch *scratch, struct as_deployment *d,
                      const struct as_request *q, struct as_str body, as_ns now,
                      struct as_router_choice *ret);
void as_plugin_scratch_fini(struct as_plugin_scratch *s);

#endif
