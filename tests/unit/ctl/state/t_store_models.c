/* Specification of ctl/state/store: models of a generation's deployments. */
#include "store_case.h"

static void collect_frame(void *arg, const struct as_store_model *m)
{
    as_buf_add(arg, m->frame.p, m->frame.n);
}

static void models_are_stored_with_their_generation(void **state AS_UNUSED)
{
    const struct as_store_model all[] = {{AS_STR("echo"), AS_STR("z:1"), {"\0\1\xff", 3}},
                                         {AS_STR("echo"), AS_STR("a:1"), AS_STR("")},
                                         {AS_STR("b"), AS_STR("a:1"), AS_STR("frame")}};
    struct as_store_entry e = {
        .cause = AS_STR("c"), .spec = AS_STR("s"), .models = all, .n_models = 3};
    struct as_store *s = open_store(2);
    struct as_buf frames = {0};
    uint64_t g;

    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    assert_int_equal(put_texts(s, AS_STR("c"), AS_STR("s"), &g), 0);
    check_models(s, 1, "echo/z:1:3 echo/a:1:0 b/a:1:5 "); /* in their order */
    assert_int_equal(as_store_each_model(s, 1, collect_frame, &frames, &err), 0);
    assert_true(as_str_eq(as_buf_slice(&frames), (struct as_str){"\0\1\xff"
                                                                 "frame",
                                                                 8}));
    e.n_models = 1;
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    as_store_close(s);
    s = open_store(2);
    check_models(s, 1, ""); /* removed with its generation */
    check_models(s, 2, "");
    check_models(s, 3, "echo/z:1:3 ");
    as_store_close(s);
    as_buf_fini(&frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(models_are_stored_with_their_generation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
