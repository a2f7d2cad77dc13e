/* ctl/supervise/status_cache.h — the last status of each deployment and application, and the models
 * of each deployment.
 *
 * Part of ctl/supervise/workers, which passes DOWN, UP, STATUS, DELETE and DECLARE of the
 * controller and MODEL of the dispatcher through it. A new dispatcher is sent every status and
 * every model; a new controller is sent which deployments are down, and their numbers of replicas.
 * What a worker has registered counts more than what the controller has declared: workers of
 * several versions may run, and code may change after it was described. Thread: the loop's.
 */
#ifndef AS_CTL_STATUS_CACHE_H
#define AS_CTL_STATUS_CACHE_H

#include "base/container/list.h"
#include "ctl/message/channel.h"
#include "ctl/message/reexec_state.h"

struct as_status_cache {
    struct as_list deployments;
    size_t model_bytes;    /* of the registered models of all deployments … */
    size_t declared_bytes; /* … and of the declared ones */
};

void as_status_cache_init(struct as_status_cache *s);
void as_status_cache_fini(struct as_status_cache *s);

/* Stores a DOWN, UP, STATUS or DELETE, and sends it to the dispatcher (NULL: there is none); stores
 * a MODEL; stores a ROUTE and passes it on; stores a DECLARE, and tells the dispatcher of it if no
 * worker counts more. */
void as_status_cache_update(struct as_status_cache *s, const struct as_ctl_message *m,
                            struct as_channel *dispatcher);
/* What was declared so far is forgotten at _end_declarations if no DECLARE comes for it. */
void as_status_cache_begin_declarations(struct as_status_cache *s);
void as_status_cache_end_declarations(struct as_status_cache *s, struct as_channel *dispatcher);
/* To a new dispatcher: DELETE, DOWN, STATUS and KNOWN of all. To a new controller: STAYS for each
 * that is down, and TARGET for each whose number of replicas is known. */
void as_status_cache_send_all(const struct as_status_cache *s, struct as_channel *channel);
void as_status_cache_send_to_controller(const struct as_status_cache *s,
                                        struct as_channel *channel);

/* The application of a deployment of this name, as it is without its id; "": there is none. */
struct as_str as_status_cache_application(const struct as_status_cache *s, struct as_str name);

/* For an upgrade's exec (ctl/message/reexec_state.h). */
void as_status_cache_save(const struct as_status_cache *s, As__Supervisor *state);
void as_status_cache_restore(struct as_status_cache *s, const As__Supervisor *state);

#endif
