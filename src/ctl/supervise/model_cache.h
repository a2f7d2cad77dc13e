/* ctl/supervise/model_cache.h — the models of one deployment, as its workers have registered them,
 * or as its code declares them.
 *
 * Part of ctl/supervise/status_cache. The dispatcher says them (MODEL) or the controller (DECLARE),
 * and each new dispatcher is told them (KNOWN), so that it knows every model before any worker has
 * connected. The bytes are frames of the link: nothing here reads them. Thread: the loop's.
 */
#ifndef AS_CTL_MODEL_CACHE_H
#define AS_CTL_MODEL_CACHE_H

#include "base/buf.h"
#include "base/container/list.h"
#include "ctl/message/channel.h"
#include "ctl/message/reexec_state.h"

/* Bytes of all deployments' registered models. A new dispatcher must be told all of them at once:
 * the outbox of its channel takes AS_OUTBOX_LIMIT. */
#define AS_MODEL_CACHE_MAX ((size_t)8 << 20)

struct as_model_cache {
    struct as_list models; /* in the order in which they were registered */
    struct as_buf settings;
    size_t bytes;
    bool whole; /* every model was said to us … */
    bool full;  /* … and not every one was stored */
};

void as_model_cache_init(struct as_model_cache *c);
void as_model_cache_fini(struct as_model_cache *c);

/* Stores a MODEL or DECLARE. If it would make more than `room` bytes of this deployment, it is not
 * stored, and a dispatcher is told that there are other models. */
void as_model_cache_set(struct as_model_cache *c, const struct as_ctl_message *m, size_t room);
size_t as_model_cache_bytes(const struct as_model_cache *c);
static inline bool as_model_cache_has_models(const struct as_model_cache *c)
{
    return c->models.next != &c->models;
}
/* Sends KNOWN for each model, then for the settings. declared: they are the controller's. */
void as_model_cache_send(const struct as_model_cache *c, struct as_str deployment, bool declared,
                         struct as_channel *dispatcher);
/* Of declared models: sends what differs from `former`, which the dispatcher knows. */
void as_model_cache_send_changes(const struct as_model_cache *c,
                                 const struct as_model_cache *former, struct as_str deployment,
                                 struct as_channel *dispatcher);
/* c gets what `from` has, which is empty then. */
void as_model_cache_move(struct as_model_cache *c, struct as_model_cache *from);

/* For an upgrade's exec (ctl/message/reexec_state.h). _restore: into an empty one. */
void as_model_cache_save(const struct as_model_cache *c, As__Deployment *state);
void as_model_cache_restore(struct as_model_cache *c, const As__Deployment *state, size_t room);

#endif
