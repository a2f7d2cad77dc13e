/* Specification of wire/grpc/grpc_health and wire/grpc/grpc_reflection: the messages, and what
 * reflection answers. */
#include "wire/grpc/grpc_health.h"

#include "unit.h"
#include "wire/grpc/grpc_reflection.h"
#include "wire/protobuf/pb.h"

/* --- health --- */

static void a_request_names_a_service(void **state AS_UNUSED)
{
    struct as_buf name = {0};

    assert_int_equal(as_grpc_health_parse((const uint8_t *)"\x0a\x04"
                                                           "echo",
                                          6, &name),
                     0);
    assert_true(as_str_eq(as_buf_slice(&name), AS_STR("echo")));
    name.n = 0;
    assert_int_equal(as_grpc_health_parse((const uint8_t *)"", 0, &name), 0);
    assert_int_equal(name.n, 0);
    assert_int_equal(as_grpc_health_parse((const uint8_t *)"\x0a\x05"
                                                           "ech",
                                          5, &name),
                     AS_EPROTO);
    assert_int_equal(as_grpc_health_parse((const uint8_t *)"\x0a\x01\xff", 3, &name), AS_EPROTO);
    assert_int_equal(name.n, 0);
    as_buf_fini(&name);
}

static void states_are_written(void **state AS_UNUSED)
{
    struct as_buf out = {0};

    out.n = as_grpc_health_put(as_buf_reserve(&out, AS_GRPC_HEALTH_RESPONSE_MAX),
                               AS_GRPC_HEALTH_NOT_SERVING);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.p, "\x08\x02", 2);
    out.n = 0;
    as_grpc_health_put_list(
        &out,
        (struct as_grpc_health_entry[]){{(char[]){"a"}, AS_GRPC_HEALTH_SERVING},
                                        {(char[]){""}, AS_GRPC_HEALTH_NOT_SERVING}},
        2);
    assert_int_equal(out.n, 15);
    assert_memory_equal(out.p,
                        "\x0a\x07\x0a\x01"
                        "a\x12\x02\x08\x01\x0a\x04\x12\x02\x08\x02",
                        15);
    out.n = 0;
    as_grpc_health_put_list(&out, NULL, 0);
    assert_int_equal(out.n, 0);
    as_buf_fini(&out);
}

/* --- reflection --- */

static const struct as_grpc_reflection_source clients = {.set = AS_GRPC_REFLECTION_CLIENTS};

/* Sends a request with field `number` = text; *out gets the response. Returns the kind of response:
 * its field number. */
static uint32_t ask(uint32_t number, const char *text, struct as_buf *out,
                    struct as_str *ret_answer)
{
    uint8_t q[256];
    uint8_t *end = as_pb_put_str(q, number, as_str_of(text));
    struct as_pb r;
    struct as_pb_field f;
    uint32_t kind = 0;

    out->n = 0;
    assert_int_equal(as_grpc_reflection_answer(&clients, q, (size_t)(end - q), out), 0);
    r = as_pb_of(as_buf_slice(out));
    while (as_pb_next(&r, &f) == 1) {
        if (f.number == 2) /* the request is repeated */
            assert_true(as_str_eq(f.s, (struct as_str){(char *)q, (size_t)(end - q)}));
        if (f.number < 4)
            continue;
        kind = f.number;
        *ret_answer = f.s;
    }
    return kind;
}

enum { FILE_ANSWER = 4, NUMBERS = 5, SERVICES = 6, ERROR = 7 };
enum { BY_NAME = 3, BY_SYMBOL = 4, ALL_NUMBERS = 6, LIST = 7 };

static void services_are_listed(void **state AS_UNUSED)
{
    static const char *const want[] = {"inference.GRPCInferenceService", "grpc.health.v1.Health",
                                       "grpc.reflection.v1.ServerReflection",
                                       "grpc.reflection.v1alpha.ServerReflection"};
    struct as_buf out = {0};
    struct as_str list;
    struct as_pb r;
    struct as_pb_field f;
    size_t seen = 0;

    assert_int_equal(ask(LIST, "*", &out, &list), SERVICES);
    r = as_pb_of(list);
    while (as_pb_next(&r, &f) == 1) {
        bool is_known = false;

        for (size_t i = 0; i < AS_COUNT(want); i++)
            is_known |= f.s.n == strlen(want[i]) + 2 && !memcmp(f.s.p + 2, want[i], f.s.n - 2);
        assert_true(is_known);
        seen++;
    }
    assert_int_equal(seen, AS_COUNT(want));
    as_buf_fini(&out);
}

static void check_file(uint32_t by, const char *what, const char *want_file)
{
    struct as_buf out = {0};
    struct as_str answer;
    struct as_pb r;
    struct as_pb_field f;

    assert_int_equal(ask(by, what, &out, &answer), FILE_ANSWER);
    r = as_pb_of(answer);
    assert_int_equal(as_pb_next(&r, &f), 1); /* a descriptor */
    r = as_pb_of(f.s);
    assert_int_equal(as_pb_next(&r, &f), 1); /* its name */
    assert_true(as_str_eq(f.s, as_str_of(want_file)));
    as_buf_fini(&out);
}

static void check_error(uint32_t by, const char *what, const char *want)
{
    struct as_buf out = {0};
    struct as_str answer;

    assert_int_equal(ask(by, what, &out, &answer), ERROR);
    assert_memory_equal(answer.p, "\x08\x05\x12", 3); /* NOT_FOUND, and a text */
    assert_int_equal(answer.n, strlen(want) + 4);
    assert_memory_equal(answer.p + 4, want, strlen(want));
    as_buf_fini(&out);
}

static void files_are_found_by_name(void **state AS_UNUSED)
{
    check_file(BY_NAME, "open_inference.proto", "open_inference.proto");
    check_file(BY_NAME, "grpc/health/v1/health.proto", "grpc/health/v1/health.proto");
    check_file(BY_NAME, "grpc/reflection/v1alpha/reflection.proto",
               "grpc/reflection/v1alpha/reflection.proto");
    check_error(BY_NAME, "nope.proto", "no file 'nope.proto'");
    check_error(BY_NAME, "", "no file ''");
}

static void files_are_found_by_every_kind_of_symbol(void **state AS_UNUSED)
{
    static const char *const inference[] = {
        "inference.GRPCInferenceService", "inference.GRPCInferenceService.ModelInfer",
        "inference.ModelInferRequest", "inference.ModelInferRequest.InferInputTensor",
        "inference.ModelInferRequest.InferInputTensor.shape"};
    static const char *const health[] = {"grpc.health.v1.Health", "grpc.health.v1.Health.Watch",
                                         "grpc.health.v1.HealthCheckResponse.ServingStatus",
                                         "grpc.health.v1.HealthCheckResponse.SERVING",
                                         "grpc.health.v1.HealthListResponse.StatusesEntry"};
    static const char *const none[] = {"inference",
                                       "inference.",
                                       "inference.Nope",
                                       "inference.ModelInferRequest.nope",
                                       "inference.GRPCInferenceService.ModelInfer.x",
                                       "grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING",
                                       "Health",
                                       ".",
                                       ""};

    for (size_t i = 0; i < AS_COUNT(inference); i++)
        check_file(BY_SYMBOL, inference[i], "open_inference.proto");
    for (size_t i = 0; i < AS_COUNT(health); i++)
        check_file(BY_SYMBOL, health[i], "grpc/health/v1/health.proto");
    check_file(BY_SYMBOL, "grpc.reflection.v1.ServerReflectionResponse.error_response",
               "grpc/reflection/v1/reflection.proto");
    for (size_t i = 0; i < AS_COUNT(none); i++) {
        char want[128];

        snprintf(want, sizeof(want), "no symbol '%s'", none[i]);
        check_error(BY_SYMBOL, none[i], want);
    }
}

static void there_are_no_extensions(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    struct as_str answer;

    assert_int_equal(ask(ALL_NUMBERS, "inference.ModelInferRequest", &out, &answer), NUMBERS);
    assert_true(as_str_eq((struct as_str){answer.p + 2, answer.n - 2},
                          AS_STR("inference.ModelInferRequest")));
    check_error(ALL_NUMBERS, "no.Such", "no type 'no.Such'");
    out.n = 0;
    assert_int_equal(as_grpc_reflection_answer(&clients,
                                               (const uint8_t *)"\x2a\x05\x0a\x03"
                                                                "a.B",
                                               7, &out),
                     0);
    assert_non_null(memmem(out.p, out.n, "no extension of type 'a.B'", 26));
    as_buf_fini(&out);
}

static void malformed_requests(void **state AS_UNUSED)
{
    struct as_buf out = {0};

    assert_int_equal(as_grpc_reflection_answer(&clients, (const uint8_t *)"\xff", 1, &out),
                     AS_EPROTO);
    assert_int_equal(as_grpc_reflection_answer(&clients, (const uint8_t *)"\x22\x01\xff", 3, &out),
                     AS_EPROTO);
    assert_int_equal(out.n, 0);
    assert_int_equal(as_grpc_reflection_answer(&clients, (const uint8_t *)"", 0, &out), 0);
    assert_non_null(memmem(out.p, out.n, "\x08\x03", 2)); /* INVALID_ARGUMENT */
    as_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_names_a_service),
        cmocka_unit_test(states_are_written),
        cmocka_unit_test(services_are_listed),
        cmocka_unit_test(files_are_found_by_name),
        cmocka_unit_test(files_are_found_by_every_kind_of_symbol),
        cmocka_unit_test(there_are_no_extensions),
        cmocka_unit_test(malformed_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
