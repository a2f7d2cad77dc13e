/* Specification of wire/triton/model_stats: the message, compared with protobuf written by hand. */
#include "wire/triton/model_stats.h"

#include "protobuf.h"

static void duration(struct as_buf *b, unsigned field, uint64_t count, uint64_t ns)
{
    struct as_buf d = {0};

    if (count)
        pb_number(&d, 1, count);
    if (ns)
        pb_number(&d, 2, ns);
    pb_nest(b, field, d);
}

/* The second row as JSON. */
#define NO_TIME(name) "\"" name "\":{\"count\":0,\"ns\":0}"
#define IDLE                                                                                                                                     \
    "{\"model_stats\":[{\"name\":\"idle\",\"version\":\"2\",\"last_inference\":0,"                                                               \
    "\"inference_count\":0,\"execution_count\":0,\"inference_stats\":{" NO_TIME("success") "," NO_TIME("fail") "," NO_TIME("queue") "," NO_TIME( \
        "compute_input") "," NO_TIME("compute_infer") "," NO_TIME("compute_"                                                                     \
                                                                  "output") "," NO_TIME("cache_"                                                 \
                                                                                        "hit") "," NO_TIME("cache_miss") "},\"batch_stats\":[]}]}"

static void rows_are_written(void **state AS_UNUSED)
{
    static const struct as_model_batches batches[] = {{1, 2, 3, 4, 5}, {8, 1, 30, 40, 0}};
    const struct as_model_stats rows[] = {
        {.name = AS_STR("m"),
         .version = AS_STR("1"),
         .last_ms = 1700000000000,
         .inferences = 12,
         .executions = 3,
         .success = 4,
         .fail = 2,
         .success_ns = 1000,
         .fail_ns = 20,
         .queue_ns = 100,
         .input_ns = 300,
         .infer_ns = 600,
         .output_ns = 50,
         .batches = batches,
         .n_batches = 2},
        {.name = AS_STR("idle"), .version = AS_STR("2")},
    };
    struct as_buf want = {0}, row = {0}, stats = {0}, out = {0};
    struct as_arena a;

    pb_text(&row, 1, "m");
    pb_text(&row, 2, "1");
    pb_number(&row, 3, 1700000000000);
    pb_number(&row, 4, 12);
    pb_number(&row, 5, 3);
    duration(&stats, 1, 4, 1000);
    duration(&stats, 2, 2, 20);
    duration(&stats, 3, 4, 100);
    duration(&stats, 4, 4, 300);
    duration(&stats, 5, 4, 600);
    duration(&stats, 6, 4, 50);
    duration(&stats, 7, 0, 0);
    duration(&stats, 8, 0, 0);
    pb_nest(&row, 6, stats);
    for (int i = 0; i < 2; i++) {
        struct as_buf batch = {0};

        pb_number(&batch, 1, batches[i].size);
        duration(&batch, 2, batches[i].calls, batches[i].input_ns);
        duration(&batch, 3, batches[i].calls, batches[i].infer_ns);
        duration(&batch, 4, batches[i].calls, batches[i].output_ns);
        pb_nest(&row, 7, batch);
    }
    pb_nest(&want, 1, row);
    row = stats = (struct as_buf){0};
    pb_text(&row, 1, "idle");
    pb_text(&row, 2, "2");
    for (unsigned i = 1; i <= 8; i++) /* all eight are written: clients read them without a check */
        duration(&stats, i, 0, 0);
    pb_nest(&row, 6, stats);
    pb_nest(&want, 1, row);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_model_stats_put(rows, 2, &a, false, &out), 0);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, out.n);
    out.n = 0;
    assert_int_equal(as_model_stats_put(NULL, 0, &a, false, &out), 0);
    assert_int_equal(out.n, 0);
    assert_int_equal(as_model_stats_put(rows + 1, 1, &a, true, &out), 0);
    assert_int_equal(out.n, strlen(IDLE));
    assert_memory_equal(out.p, IDLE, out.n);
    as_arena_fini(&a);
    as_buf_fini(&out);
    as_buf_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_written),
    };

    return cmocka_run_group_tests_name("model_stats", tests, NULL, NULL);
}
