/* Specification of tool/server/changes: the response to a deployment file is parsed and printed. */
#include "tool/server/changes.h"

#include "base/err.h"
#include "unit.h"

static const char answer[] =
    "{\"generation\":7,\"more\":{},\"changes\":["
    "{\"application\":\"shop\",\"deployment\":\"ranker\",\"step\":\"changed\","
    "\"class\":\"restart\",\"keys\":\"version,env\"},"
    "{\"application\":\"shop\",\"deployment\":\"old\",\"step\":\"removed\"},"
    "{\"application\":\"a-long-application\",\"deployment\":\"d\",\"step\":\"added\",\"keys\":null}"
    ","
    "{\"application\":\"quiet\",\"deployment\":\"d\",\"step\":\"unchanged\"}]}";

static void a_response_is_parsed(void **state AS_UNUSED)
{
    struct as_changes c;
    struct as_buf b;

    assert_int_equal(as_changes_read(&c, AS_STR(answer)), 0);
    assert_int_equal(c.generation, 7);
    assert_int_equal(c.n, 4);
    assert_int_equal(as_changes_count(&c, AS_CHANGE_REMOVED), 1);
    assert_true(as_changes_affect(&c, "shop"));
    assert_false(as_changes_affect(&c, "quiet"));
    assert_false(as_changes_affect(&c, "sho"));
    as_buf_init(&b);
    as_changes_print(&c, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p,
                        "APPLICATION         DEPLOYMENT  STEP       COST         KEYS\n"
                        "shop                ranker      changed    restart      version,env\n"
                        "shop                old         removed\n"
                        "a-long-application  d           added\n"
                        "quiet               d           unchanged\n"
                        "1 added, 1 changed, 1 removed, 1 unchanged\n");
    as_buf_fini(&b);
    as_changes_fini(&c);
}

static void no_changes(void **state AS_UNUSED)
{
    struct as_changes c;

    assert_int_equal(as_changes_read(&c, AS_STR("{\"changes\":[]}")), 0);
    assert_int_equal(c.generation, 0);
    assert_int_equal(c.n, 0);
    as_changes_fini(&c);
}

static void other_responses_are_refused(void **state AS_UNUSED)
{
    static const char *const texts[] = {
        "",
        "{}",
        "[]",
        "{\"changes\":7}",
        "{\"changes\":{}}",
        "{\"changes\":[7]}",
        "{\"changes\":[{}]}",
        "{\"generation\":\"x\",\"changes\":[]}",
        "{\"changes\":[{\"application\":\"a\",\"deployment\":\"b\",\"step\":\"jumped\"}]}",
        "{\"changes\":[{\"application\":\"a\",\"deployment\":\"b\",\"step\":\"added\"},7]}",
        "{\"changes\":[",
    };

    for (size_t i = 0; i < AS_COUNT(texts); i++) {
        struct as_changes c;

        assert_int_equal(as_changes_read(&c, as_str_of(texts[i])), AS_EPROTO);
        as_changes_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_parsed),
        cmocka_unit_test(no_changes),
        cmocka_unit_test(other_responses_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
