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
 * cannot be loaded, has another ABI, lacks a function, or the name is taken. */
int as_plugin_load(struct as_str name, const char *path, char *why, size_t n);
/* Loads all of a valid list (core/route/plugin_list.h); stops at the first error. */
int as_plugin_load_all(struct as_str list, char *why, size_t n);
/* The plugin of that name; NULL: none was loaded. */
const struct as_router_plugin *as_plugin_find(struct as_str name);

/* A plugin that chooses for one deployment. Zeros: none. */
struct as_plugin_use {
    const struct as_router_plugin *table; /* NULL: none */
    void *state;
    struct as_router_replica *replicas; /* scratch of as_plugin_choose, grown as needed … */
    struct as_replica **of;
    uint32_t cap; /* … to so many */
};
/* Begins with the plugin of that deployment, if one was loaded for it. AS_EINVALID: it refuses, why
 * (n bytes) says for what reason, and *u is as before. */
int as_plugin_begin(struct as_plugin_use *u, struct as_str deployment, char *why, size_t n);
void as_plugin_end(struct as_plugin_use *u);
/* Asks it for a replica for q. body: the first bytes of its body, or nothing. False: it has no
 * valid choice. */
bool as_plugin_choose(struct as_plugin_use *u, struct as_deployment *d, const struct as_request *q,
                      struct as_str body, as_ns now, struct as_router_choice *ret);
/* A request was sent to r; one has ended there. No effect without a plugin. */
void as_plugin_note_sent(const struct as_plugin_use *u, const struct as_replica *r);
void as_plugin_note_ended(const struct as_plugin_use *u, const struct as_replica *r);

#endif
