/* Any bytes as a message of the health and reflection services, and of the extensions. Parsed
 * structs are as their headers promise; responses are well-formed protobuf. */
#include "base/err.h"
#include "wire/grpc/grpc_health.h"
#include "wire/grpc/grpc_reflection.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb.h"
#include "wire/triton/repository.h"
#include "wire/triton/settings.h"
#include "wire/triton/shm_region.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_well_formed(struct as_str message)
{
    struct as_pb r = as_pb_of(message);
    struct as_pb_field f;
    int rc;

    while ((rc = as_pb_next(&r, &f)) == 1) {
    }
    AS_ASSERT(rc == 0);
}

static void check_settings(const struct as_setting *s, uint32_t n)
{
    AS_ASSERT(n <= AS_SETTINGS_MAX);
    for (uint32_t i = 0; i < n; i++)
        AS_ASSERT(as_name_check_utf8(s[i].name) && as_name_check_utf8(s[i].text));
}

static void check_extensions(const uint8_t *data, size_t size, struct as_buf *out)
{
    struct as_repository_change c;
    const struct as_setting *s;
    struct as_shm_region r;
    struct as_str model;
    struct as_arena a;
    uint32_t n;
    bool ready;

    as_arena_init(&a, NULL, 0);
    (void)as_repository_parse_index(data, size, &ready);
    if (as_repository_parse_change(data, size, &a, &c) == 0) {
        AS_ASSERT(as_name_check_utf8(c.model));
        for (uint32_t i = 0; i < c.n_parameters; i++)
            AS_ASSERT(as_name_check_utf8(c.parameters[i]));
    }
    if (as_shm_region_parse(data, size, &a, &r) == 0) {
        AS_ASSERT(as_name_check_utf8(r.name) && as_name_check_utf8(r.key));
        out->n = 0;
        AS_ASSERT(as_shm_region_put(&r, 1, &a, false, out) == 0);
        check_well_formed(as_buf_slice(out));
    }
    if (as_settings_parse_log(data, size, &a, &s, &n) == 0) {
        check_settings(s, n);
        out->n = 0;
        AS_ASSERT(as_settings_put_log(s, n, &a, out) == 0);
        check_well_formed(as_buf_slice(out));
    }
    if (as_settings_parse_trace(data, size, &a, &s, &n, &model) == 0) {
        check_settings(s, n);
        out->n = 0;
        AS_ASSERT(as_settings_put_trace(s, n, &a, out) == 0);
        check_well_formed(as_buf_slice(out));
    }
    as_arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_buf out = {0};

    for (int set = AS_GRPC_REFLECTION_CLIENTS; set <= AS_GRPC_REFLECTION_MANAGEMENT; set++) {
        if (as_grpc_reflection_answer(
                &(struct as_grpc_reflection_source){.set = (enum as_grpc_reflection_set)set}, data,
                size, &out) == 0)
            AS_ASSERT(out.n > 0);
        check_well_formed(as_buf_slice(&out));
        out.n = 0;
        (void)as_grpc_reflection_find_symbol((enum as_grpc_reflection_set)set,
                                             (struct as_str){(const char *)data, size});
    }
    if (as_grpc_health_parse(data, size, &out))
        AS_ASSERT(out.n == 0);
    check_extensions(data, size, &out);
    as_buf_fini(&out);
    return 0;
}
