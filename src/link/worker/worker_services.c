/* SERVICES: the gRPC services of the user that the deployment serves, sent to the server. */
#include "link/worker/worker_internal.h"
#include "wire/frame/frame_services.h"

int as_worker_set_services(struct as_worker *w, const struct as_worker_service_method *methods,
                           uint32_t n, struct as_str descriptors)
{
    struct as_frame_service_method *rows;
    struct as_frame_services s;
    struct as_outq q;
    int err;

    if (w->models_fixed || n > AS_FRAME_SERVICE_METHODS)
        return AS_EINVALID;
    rows = as_xalloc(n * sizeof(*rows));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct as_frame_service_method){
            as_str_of(methods[i].path), (methods[i].takes_inputs ? AS_SERVICE_F_INPUTS : 0) |
                                            (methods[i].gives_parts ? AS_SERVICE_F_PARTS : 0)};
    s = (struct as_frame_services){rows, n, descriptors};
    as_outq_init(&q);
    err = as_frame_put_services(&q, &s);
    if (!err) {
        as_buf_drop(&w->services, w->services.n);
        if (n)
            as_outq_peek(&q, &w->services);
    }
    as_outq_fini(&q);
    free(rows);
    return err;
}

void as_worker_send_services(struct as_worker *w, struct as_worker_link *l)
{
    if (w->services.n)
        as_outq_copy(&l->out, w->services.p, w->services.n);
}
