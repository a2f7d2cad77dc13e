/* Any bytes as a message of the health and reflection services. An answer to a question is again
 * well-formed protobuf. */
#include "wire/health.h"
#include "wire/pb.h"
#include "wire/reflect.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_buf out = {0};

    if (as_reflect_answer(data, size, &out) == 0)
        AS_ASSERT(out.n > 0);
    check_well_formed(as_buf_slice(&out));
    out.n = 0;
    if (as_health_parse(data, size, &out))
        AS_ASSERT(out.n == 0);
    as_buf_fini(&out);
    (void)as_reflect_find_symbol((struct as_str){(const char *)data, size});
    return 0;
}
