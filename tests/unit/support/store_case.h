/* tests/unit/support/store_case.h — a store in a folder of its own, for the tests of
 * ctl/state/store. */
#ifndef AS_TESTS_STORE_CASE_H
#define AS_TESTS_STORE_CASE_H

#include "ctl/state/store.h"

#include "unit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char base[64], folder[96], file[160];
static struct as_buf err;

AS_UNUSED static int make_folder(void **state AS_UNUSED)
{
    snprintf(base, sizeof(base), "/tmp/as_store_XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(folder, sizeof(folder), "%s/deep/state", base);
    snprintf(file, sizeof(file), "%s/" AS_STORE_FILE, folder);
    as_buf_init(&err);
    return 0;
}

AS_UNUSED static int remove_folder(void **state AS_UNUSED)
{
    char command[128];

    as_buf_fini(&err);
    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command);
}

AS_UNUSED static const char *error_text(void)
{
    as_buf_add(&err, "", 1);
    return (const char *)err.p;
}

AS_UNUSED static struct as_store *open_store(uint32_t keep)
{
    struct as_store *s;

    if (as_store_open(&s, folder, keep, &err))
        fail_msg("%s", error_text());
    return s;
}

AS_UNUSED static int put_texts(struct as_store *s, struct as_str cause, struct as_str spec,
                               uint64_t *ret_g)
{
    struct as_store_entry e = {.cause = cause, .spec = spec, .time_ms = 1700000000123};

    return as_store_put(s, &e, ret_g, &err);
}

AS_UNUSED static uint64_t put(struct as_store *s, const char *cause, const char *spec)
{
    uint64_t generation;

    if (put_texts(s, as_str_of(cause), as_str_of(spec), &generation))
        fail_msg("%s", error_text());
    return generation;
}

AS_UNUSED static void check_refused(int want, const char *text)
{
    struct as_store *s = NULL;

    err.n = 0;
    assert_int_equal(as_store_open(&s, folder, 10, &err), want);
    assert_null(s);
    assert_non_null(strstr(error_text(), text));
}

AS_UNUSED static void check_failure(struct as_store *s, uint64_t generation,
                                    const char *application, const char *deployment,
                                    const char *why)
{
    struct as_store_entry e;

    assert_int_equal(as_store_get(s, generation, &e, &err), 0);
    assert_true(as_str_eq(e.failed.application, as_str_of(application)));
    assert_true(as_str_eq(e.failed.deployment, as_str_of(deployment)));
    assert_true(as_str_eq(e.failed.why, as_str_of(why)));
    assert_true(as_str_eq(e.spec, AS_STR("spec")));
}

AS_UNUSED static void put_scale(void *arg, const struct as_store_scale *scale)
{
    as_buf_printf(arg, "%.*s:%u ", AS_STR_FMT(scale->deployment), scale->replicas);
}

AS_UNUSED static void check_scales(struct as_store *s, uint64_t generation, const char *want)
{
    struct as_buf got = {0};

    assert_int_equal(as_store_each_scale(s, generation, put_scale, &got, &err), 0);
    as_buf_add(&got, "", 1);
    assert_string_equal((char *)got.p, want);
    as_buf_fini(&got);
}

AS_UNUSED static void put_model(void *arg, const struct as_store_model *m)
{
    as_buf_printf(arg, "%.*s/%.*s:%zu ", AS_STR_FMT(m->deployment), AS_STR_FMT(m->name),
                  m->frame.n);
}

AS_UNUSED static void check_models(struct as_store *s, uint64_t generation, const char *want)
{
    struct as_buf got = {0};

    assert_int_equal(as_store_each_model(s, generation, put_model, &got, &err), 0);
    as_buf_add(&got, "", 1);
    assert_string_equal((char *)got.p, want);
    as_buf_fini(&got);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

#endif
