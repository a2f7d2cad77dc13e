/* Specification of conf/spec/declared: the text in which the worker program describes an
 * application. */
#include "conf/spec/declared.h"

#include "unit.h"

static void collect(void *ctx, struct as_str line)
{
    as_buf_add(ctx, line.p, line.n);
    as_buf_str(ctx, ";");
}

static void each_line_is_a_deployment(void **state AS_UNUSED)
{
    struct as_buf other = {0}, err = {0}, text = {0};
    struct as_declared app;

    assert_int_equal(
        as_declared_parse(&app, AS_STR("importing\necho\techo:1\tadd:1\n\ntext\ttext:v2\nbye"),
                          collect, &other, &err),
        0);
    assert_int_equal(app.n, 2);
    assert_string_equal(app.deployments[0].name, "echo");
    assert_int_equal(app.deployments[0].n_models, 2);
    assert_string_equal(app.deployments[0].models[1].name, "add:1");
    assert_string_equal(app.deployments[1].models[0].name, "text:v2");
    assert_true(as_str_eq(as_buf_slice(&other), AS_STR("importing;bye;")));
    as_declared_write(&app, &text); /* for the controller, which parses it again */
    assert_true(as_str_eq(as_buf_slice(&text), AS_STR("echo\techo:1\tadd:1\ntext\ttext:v2\n")));
    as_buf_fini(&text);
    as_declared_fini(&app);
    as_buf_fini(&other);
}

static void options_of_the_code_stand_before_the_models(void **state AS_UNUSED)
{
    struct as_buf err = {0}, text = {0};
    struct as_declared app;

    assert_int_equal(as_declared_parse(&app, AS_STR("a\t{\"num_replicas\": 2}\tm:1\nb\tm:1\n"),
                                       NULL, NULL, &err),
                     0);
    assert_string_equal(app.deployments[0].options, "{\"num_replicas\": 2}");
    assert_int_equal(app.deployments[0].n_models, 1);
    assert_null(app.deployments[1].options);
    as_declared_write(&app, &text);
    assert_true(as_str_eq(as_buf_slice(&text), AS_STR("a\t{\"num_replicas\": 2}\tm:1\nb\tm:1\n")));
    as_buf_fini(&text);
    as_declared_fini(&app);
}

static void arguments_go_with_the_deployments(void **state AS_UNUSED)
{
    struct as_buf err = {0}, text = {0};
    struct as_declared app;

    assert_int_equal(
        as_declared_parse(&app, AS_STR("a\tm:1\n@args\t{\"n\":\"3\"}\n"), NULL, NULL, &err), 0);
    assert_string_equal(app.args, "{\"n\":\"3\"}");
    as_declared_write_deployments(&app, &text); /* for the controller, which starts the workers */
    assert_true(as_str_eq(as_buf_slice(&text), AS_STR("@args\t{\"n\":\"3\"}\na\tm:1\n")));
    as_buf_fini(&text);
    as_declared_fini(&app);
}

static void notes_are_about_the_code(void **state AS_UNUSED)
{
    const char *declared = "a\tm:1\n",
               *notes = "@call\tm --input 'x=1,\t2'\n@files\t/a/x.py\n@files\t/a/y z.py\n";
    struct as_buf err = {0}, text = {0}, all = {0};
    struct as_declared app;

    assert_int_equal(as_declared_parse(&app,
                                       AS_STR("@files\t/a/x.py\t/a/y z.py\n@call\tm --input "
                                              "'x=1,\t2'\n@newer\twhatever\na\tm:1\n"),
                                       NULL, NULL, &err),
                     0);
    assert_int_equal(app.n, 1);
    assert_int_equal(app.n_files, 2);
    assert_string_equal(app.files[1], "/a/y z.py");
    assert_string_equal(app.call, "m --input 'x=1,\t2'");
    as_declared_write_deployments(&app, &text);
    assert_true(as_str_eq(as_buf_slice(&text), as_str_of(declared)));
    as_declared_write(&app, &all);
    assert_true(
        as_str_eq((struct as_str){(char *)all.p + text.n, all.n - text.n}, as_str_of(notes)));
    as_declared_fini(&app);
    assert_int_equal(as_declared_parse(&app, as_buf_slice(&all), NULL, NULL, &err), 0);
    assert_int_equal(app.n_files, 2);
    as_declared_fini(&app);
    as_buf_fini(&text);
    as_buf_fini(&all);
}

static void a_registration_is_its_models(void **state AS_UNUSED)
{
    const char *text = "a\tm:1\tm:2\n@register\ta\tm:2\tAAEC/w\nb\tm:3\n";
    struct as_declared app, copy = {0};
    struct as_buf err = {0}, out = {0};

    assert_int_equal(as_declared_parse(&app,
                                       AS_STR("a\tm:1\tm:2\nb\tm:3\n@register\ta\tm:2\tAAEC/w==\n"
                                              "@register\ta\tgone:1\tAAEC\n"
                                              "@register\ta\tm:2\tAAAA\n"),
                                       NULL, NULL, &err),
                     0);
    assert_int_equal(app.deployments[0].models[0].frame.n, 0);
    assert_true(as_str_eq(as_buf_slice(&app.deployments[0].models[1].frame),
                          (struct as_str){"\0\1\2\xff", 4}));
    as_declared_write_deployments(&app, &out);
    assert_true(as_str_eq(as_buf_slice(&out), as_str_of(text)));
    as_buf_drop(&out, out.n);
    as_declared_copy_all_models(&copy, &app);
    as_declared_write(&copy, &out);
    assert_true(as_str_eq(as_buf_slice(&out), as_str_of(text)));
    as_declared_add_model(&copy, AS_STR("c"), AS_STR("m:1"), AS_STR("REGISTER"));
    assert_null(as_declared_find(&app, AS_STR("c")));
    assert_int_equal(as_declared_find(&copy, AS_STR("c"))->models[0].frame.n, 8);
    as_declared_fini(&copy);
    as_declared_fini(&app);
    as_buf_fini(&out);
}

static void check_refused(struct as_str text, const char *want)
{
    struct as_buf err = {0};
    struct as_declared app;

    assert_int_equal(as_declared_parse(&app, text, NULL, NULL, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, want));
    as_buf_fini(&err);
}

static void malformed_descriptions_are_refused(void **state AS_UNUSED)
{
    check_refused(AS_STR(""), "described no model");
    check_refused(AS_STR("just prints\n"), "described no model");
    check_refused(AS_STR("\techo:1\n"), "bad name");
    check_refused(AS_STR("echo\t\n"), "without a version");
    check_refused(AS_STR("echo\techo\n"), "without a version: 'echo'");
    check_refused(AS_STR("echo\techo:1\t\n"), "without a version");
    check_refused(AS_STR("@files\tx.py\necho\techo:1\n"), "path is not absolute: 'x.py'");
    check_refused(AS_STR("@files\t\necho\techo:1\n"), "path is not absolute: ''");
    check_refused(AS_STR("@call\ta\0b\necho\techo:1\n"), "a NUL byte");
    check_refused(AS_STR("@files\t/x.py\n"), "described no model");
    check_refused(AS_STR("@args\t[1]\necho\techo:1\n"), "are no JSON object: '[1]'");
    check_refused(AS_STR("@args\t\necho\techo:1\n"), "are no JSON object: ''");
    check_refused((struct as_str){"ec\0ho\te:1\n", 10}, "a NUL byte, of deployment 'ec'");
    check_refused((struct as_str){"echo\te\0:1\n", 10}, "a NUL byte, of deployment 'echo'");
    check_refused(AS_STR("echo\t{}\n"), "without a model: 'echo'");
    check_refused(AS_STR("echo\tm:1\t{}\n"), "without a version: '{}'");
    check_refused(AS_STR("@register\techo\tm:1\tAAAA\necho\tm:1\n"), "is none, of model 'm:1'");
    check_refused(AS_STR("echo\tm:1\n@register\techo\tm:1\t?\n"), "is none, of model 'm:1'");
    check_refused(AS_STR("echo\tm:1\n@register\techo\tm:1\n"), "is none, of model 'm:1'");
}

#define COPY "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void the_copy_of_the_code_comes_first(void **state AS_UNUSED)
{
    struct as_buf err = {0}, b = {0};
    struct as_declared app;

    assert_int_equal(
        as_declared_parse(&app, AS_STR("@code\t" COPY "/app.py\nd\tm:1\n"), NULL, NULL, &err), 0);
    assert_string_equal(app.code, COPY "/app.py");
    assert_int_equal(app.n, 1);
    as_declared_write(&app, &b);
    as_declared_fini(&app);
    assert_int_equal(as_declared_parse(&app, as_buf_slice(&b), NULL, NULL, &err), 0);
    assert_string_equal(app.code, COPY "/app.py");
    as_declared_fini(&app);
    /* its deployments were known before */
    assert_int_equal(as_declared_parse(&app, AS_STR("@code\t" COPY "\n"), NULL, NULL, &err), 0);
    assert_int_equal(app.n, 0);
    as_declared_fini(&app);
    check_refused(AS_STR("@code\tsha256:0\nd\tm:1\n"), "its code with a bad name");
    check_refused(AS_STR("@code\t\nd\tm:1\n"), "with a bad name");
    check_refused((struct as_str){"@code\t" COPY "/a\0b\n", sizeof("@code\t" COPY "/a\0b\n") - 1},
                  "its code with a bad name");
    as_buf_fini(&b);
    as_buf_fini(&err);
}

static void add(struct as_buf *b, const char *text, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        as_buf_str(b, text);
}

static void numbers_are_bounded(void **state AS_UNUSED)
{
    struct as_buf b = {0}, err = {0};
    struct as_declared app;

    for (uint32_t extra = 0; extra <= 1; extra++) {
        as_buf_drop(&b, b.n);
        add(&b, "d\tm:1\n", AS_DECLARED_DEPLOYMENTS_MAX + extra);
        if (extra)
            check_refused(as_buf_slice(&b), "too many deployments");
        else
            assert_int_equal(as_declared_parse(&app, as_buf_slice(&b), NULL, NULL, &err), 0);
    }
    assert_int_equal(app.n, AS_DECLARED_DEPLOYMENTS_MAX);
    as_declared_fini(&app);
    for (uint32_t extra = 0; extra <= 1; extra++) {
        as_buf_drop(&b, b.n);
        as_buf_str(&b, "d");
        add(&b, "\tm:1", AS_DECLARED_MODELS_MAX + extra);
        if (extra)
            check_refused(as_buf_slice(&b), "too many models");
        else
            assert_int_equal(as_declared_parse(&app, as_buf_slice(&b), NULL, NULL, &err), 0);
    }
    as_declared_fini(&app);
    for (unsigned extra = 0; extra <= 1; extra++) {
        as_buf_drop(&b, b.n);
        as_buf_str(&b, "d\tm:1\n@files");
        add(&b, "\t/x", AS_DECLARED_FILES_MAX + extra);
        if (extra)
            check_refused(as_buf_slice(&b), "too many files");
        else
            assert_int_equal(as_declared_parse(&app, as_buf_slice(&b), NULL, NULL, &err), 0);
    }
    as_declared_fini(&app);
    as_buf_drop(&b, b.n);
    add(&b, "n", 129);
    as_buf_str(&b, "\tm:1\n");
    check_refused(as_buf_slice(&b), "bad name");
    assert_int_equal(
        as_declared_parse(&app, (struct as_str){(char *)b.p + 1, b.n - 1}, NULL, NULL, &err), 0);
    as_declared_fini(&app);
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_a_deployment),
        cmocka_unit_test(options_of_the_code_stand_before_the_models),
        cmocka_unit_test(arguments_go_with_the_deployments),
        cmocka_unit_test(notes_are_about_the_code),
        cmocka_unit_test(a_registration_is_its_models),
        cmocka_unit_test(malformed_descriptions_are_refused),
        cmocka_unit_test(the_copy_of_the_code_comes_first),
        cmocka_unit_test(numbers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
