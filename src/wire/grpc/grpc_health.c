#include "wire/grpc/grpc_health.h"

#include "wire/name_check.h"
#include "wire/protobuf/pb_pack.h"
#include "wire/protobuf/pb_unpack.h"

#include <health.pb-c.h>

_Static_assert((int)AS_GRPC_HEALTH_SERVICE_UNKNOWN ==
                   GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
               "one enum");

int as_grpc_health_parse(const uint8_t *p, size_t n, struct as_buf *ret_service)
{
    struct as_pb_unpack mem;
    Grpc__Health__V1__HealthCheckRequest *q =
        grpc__health__v1__health_check_request__unpack(as_pb_unpack_init(&mem), n, p);
    struct as_str service;
    int err = 0;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    service = as_str_of(q->service);
    if (!as_name_check_utf8(service))
        err = AS_EPROTO;
    else if (!as_buf_try_reserve(ret_service, service.n))
        err = service.n ? AS_ENOMEM : 0;
    else
        as_buf_add(ret_service, service.p, service.n);
    grpc__health__v1__health_check_request__free_unpacked(q, &mem.allocator);
    return err;
}

size_t as_grpc_health_put(uint8_t out[AS_GRPC_HEALTH_RESPONSE_MAX], enum as_grpc_health status)
{
    Grpc__Health__V1__HealthCheckResponse r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    r.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    AS_ASSERT(grpc__health__v1__health_check_response__get_packed_size(&r) <=
              AS_GRPC_HEALTH_RESPONSE_MAX);
    return grpc__health__v1__health_check_response__pack(&r, out);
}

/* An entry of the map, and the message that it points to. */
struct entry {
    Grpc__Health__V1__HealthListResponse__StatusesEntry entry;
    Grpc__Health__V1__HealthCheckResponse value;
};

int as_grpc_health_put_list(struct as_buf *out, const struct as_grpc_health_entry *rows, size_t n)
{
    Grpc__Health__V1__HealthListResponse r = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
    struct entry *entries = calloc(n + 1, sizeof(*entries)); /* n may be 0 */
    int err = AS_ENOMEM;

    r.n_statuses = n;
    r.statuses = calloc(n + 1, sizeof(void *));
    for (size_t i = 0; i < n && entries && r.statuses; i++) {
        struct entry *e = &entries[i];

        grpc__health__v1__health_list_response__statuses_entry__init(&e->entry);
        grpc__health__v1__health_check_response__init(&e->value);
        e->entry.key = rows[i].service;
        e->entry.value = &e->value;
        e->value.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)rows[i].status;
        r.statuses[i] = &e->entry;
    }
    if (entries && r.statuses)
        err = as_pb_pack(&r.base, out);
    free(r.statuses);
    free(entries);
    return err;
}
