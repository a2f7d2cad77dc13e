/* The gRPC services of the user that a deployment serves: from its workers, or from records. */
#include "base/err.h"
#include "link/fleet/fleet_deployment.h"
#include "wire/frame/frame_services.h"

void as_fleet_set_services(struct as_fleet_deployment *d, struct as_service_set *set)
{
    struct as_fleet *f = d->fleet;

    if (as_service_set_eq(d->services, set))
        return;
    if (set)
        as_service_set_keep_counts(set, d->services);
    as_service_set_unref(d->services);
    d->services = set ? as_service_set_ref(set) : NULL;
    as_log_event(f->log, AS_LOG_INFO, "services", "deployment=%s methods=%u",
                 as_id_shown_z(d->name), set ? set->n : 0);
    if (!d->deleted)
        as_fleet_publish(f, as_registry_set_services(f->registry, d->number,
                                                     as_id_application(as_str_of(d->name)), set));
    as_fleet_record_settings(d);
}

int as_fleet_read_services(const struct as_frame *frame, struct as_service_set **ret_set,
                           const char **ret_why)
{
    struct as_service_method methods[AS_FRAME_SERVICE_METHODS];
    struct as_frame_services s;
    struct as_arena a;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_frame_get_services(frame, &a, &s, ret_why);
    for (uint32_t i = 0; !err && i < s.n; i++)
        methods[i] =
            (struct as_service_method){.path = s.methods[i].path,
                                       .takes_inputs = s.methods[i].flags & AS_SERVICE_F_INPUTS,
                                       .gives_parts = s.methods[i].flags & AS_SERVICE_F_PARTS};
    if (!err)
        *ret_set = s.n ? as_service_set_new(methods, s.n, s.descriptors) : NULL;
    as_arena_fini(&a);
    return err;
}

void as_fleet_put_services(const struct as_service_set *set, struct as_outq *q)
{
    struct as_frame_service_method methods[AS_FRAME_SERVICE_METHODS];
    struct as_frame_services s = {methods, set->n, set->descriptors};
    int err;

    for (uint32_t i = 0; i < set->n; i++)
        methods[i] = (struct as_frame_service_method){
            set->methods[i].path, (set->methods[i].takes_inputs ? AS_SERVICE_F_INPUTS : 0) |
                                      (set->methods[i].gives_parts ? AS_SERVICE_F_PARTS : 0)};
    err = as_frame_put_services(q, &s);
    AS_ASSERT(!err); /* it came in such a frame */
}
