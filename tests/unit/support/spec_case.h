/* tests/unit/support/spec_case.h — parses texts as specs and checks their errors, for the tests of
 * conf/spec/spec. */
#ifndef AS_TESTS_SPEC_CASE_H
#define AS_TESTS_SPEC_CASE_H

#include "conf/option/option.h"
#include "conf/spec/spec.h"

#include "unit.h"

static struct as_buf err_text; /* the errors of the last text, with a NUL */

static inline struct as_spec_limits limits(void)
{
    struct as_option_set o;
    struct as_spec_limits l;

    as_option_init(&o, AS_SCOPE_CHECK);
    as_spec_limits_from_options(&l, &o);
    return l;
}

static inline struct as_spec *read_with(const char *text, const struct as_spec_limits *l)
{
    struct as_spec *s = NULL;
    int rc;

    as_buf_fini(&err_text);
    rc = as_spec_parse(&s, l, "f", as_str_of(text), &err_text);
    assert_int_equal(rc, s ? 0 : AS_EINVALID);
    as_buf_add(&err_text, "", 1);
    return s;
}

/* Parses a valid text. */
static inline struct as_spec *parse(const char *text)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = read_with(text, &l);

    assert_string_equal((char *)err_text.p, "");
    return s;
}

static inline void refused(const char *text, const char *want)
{
    struct as_spec_limits l = limits();

    assert_null(read_with(text, &l));
    assert_string_equal((char *)err_text.p, want);
}

static inline struct as_spec_object *app_of(const struct as_spec *s, uint32_t i)
{
    return as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i);
}

static inline struct as_spec_object *deployment_of(const struct as_spec *s, uint32_t i, uint32_t k)
{
    return as_spec_object(app_of(s, i), AS_SPEC_APPLICATION_DEPLOYMENTS, k);
}

/* A file with one application and one deployment, which gets the keys in `lines` from line 2 on. */
#define DEPLOYMENT(lines)                                                                          \
    "applications: [{import_path: m, deployments: [{name: d,\n" lines "\n}]}]\n"

#endif
