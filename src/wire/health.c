#include "wire/health.h"

#include "wire/names.h"

#include <health.pb-c.h>

_Static_assert((int)AS_HEALTH_SERVICE_UNKNOWN ==
                   GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
               "one enum");

int as_health_parse(const uint8_t *p, size_t n, struct as_buf *ret_service)
{
    Grpc__Health__V1__HealthCheckRequest *q =
        grpc__health__v1__health_check_request__unpack(NULL, n, p);
    struct as_str service;
    int err = AS_EPROTO;

    if (!q)
        return AS_EPROTO;
    service = as_str_of(q->service);
    if (as_names_utf8(service)) {
        as_buf_add(ret_service, service.p, service.n);
        err = 0;
    }
    grpc__health__v1__health_check_request__free_unpacked(q, NULL);
    return err;
}

void as_health_put(struct as_buf *out, enum as_health status)
{
    Grpc__Health__V1__HealthCheckResponse r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    r.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    out->n += grpc__health__v1__health_check_response__pack(
        &r, as_buf_reserve(out, grpc__health__v1__health_check_response__get_packed_size(&r)));
}

/* An entry of the map with the message that it points to. */
struct entry {
    Grpc__Health__V1__HealthListResponse__StatusesEntry entry;
    Grpc__Health__V1__HealthCheckResponse value;
};

void as_health_put_list(struct as_buf *out, const struct as_health_row *rows, size_t n)
{
    Grpc__Health__V1__HealthListResponse r = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
    struct entry *entries = as_xalloc(n * sizeof(*entries));

    r.n_statuses = n;
    r.statuses = as_xalloc(n * sizeof(void *));
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &entries[i];

        grpc__health__v1__health_list_response__statuses_entry__init(&e->entry);
        grpc__health__v1__health_check_response__init(&e->value);
        e->entry.key = rows[i].service;
        e->entry.value = &e->value;
        e->value.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)rows[i].status;
        r.statuses[i] = &e->entry;
    }
    out->n += grpc__health__v1__health_list_response__pack(
        &r, as_buf_reserve(out, grpc__health__v1__health_list_response__get_packed_size(&r)));
    free(r.statuses);
    free(entries);
}
