/* Specification of conf/spec/spec_tree: the YAML that is accepted, the types of scalars, and errors
 * with their places.
 */
#include "conf/spec/spec_tree.h"

#include "unit.h"

static struct as_arena arena;
static struct as_buf err_text;

static struct as_spec_node *read_depth(const char *text, size_t n, uint32_t depth)
{
    struct as_spec_errors e = {.out = &err_text, .name = "f", .max = 10};
    struct as_spec_node *root;

    as_buf_fini(&err_text);
    as_arena_reset(&arena);
    root = as_spec_tree(&arena, (struct as_str){text, n}, depth, &e);
    as_spec_errors_end(&e);
    as_buf_add(&err_text, "", 1);
    return root;
}

static struct as_spec_node *ok(const char *text)
{
    struct as_spec_node *root = read_depth(text, strlen(text), 20);

    assert_string_equal((char *)err_text.p, "");
    assert_non_null(root);
    return root;
}

static void refused(const char *text, const char *want)
{
    read_depth(text, strlen(text), 20);
    assert_string_equal((char *)err_text.p, want);
}

static void members_keep_their_order_and_places(void **state AS_UNUSED)
{
    struct as_spec_node *n = ok("# head\nb: 1\na:\n  - x\n  - {c: 'y'}\n"), *list;

    assert_int_equal(n->type, AS_SPEC_NODE_MAP);
    assert_int_equal(n->n, 2);
    assert_true(as_str_eq(n->first->key, AS_STR("b")));
    assert_int_equal(n->first->key_line, 2);
    assert_int_equal(n->first->key_column, 1);
    assert_int_equal(n->first->line, 2);
    assert_int_equal(n->first->column, 4);
    list = n->first->next;
    assert_int_equal(list->type, AS_SPEC_NODE_LIST);
    assert_int_equal(list->n, 2);
    assert_true(list->first->plain);
    assert_true(as_str_eq(list->first->next->first->key, AS_STR("c")));
    assert_true(as_str_eq(list->first->next->first->text, AS_STR("y")));
    assert_false(list->first->next->first->plain);
}

static void json_is_yaml(void **state AS_UNUSED)
{
    struct as_spec_node *n =
        ok("{\"a\":[1,2.5,null,true],\r\n\t\"b\":{\"c\":\"\\u00e4\\/\\ud83d\\ude00\\\\ud83d\"}}");

    assert_int_equal(n->n, 2);
    assert_int_equal(n->first->n, 4);
    /* surrogates are joined; behind an escaped backslash no escape starts */
    assert_true(as_str_eq(n->first->next->first->text, AS_STR("ä/😀\\ud83d")));
}

static enum as_spec_scalar is(const char *text)
{
    struct as_spec_node n = {.plain = true, .text = as_str_of(text)};

    return as_spec_scalar(&n);
}

/* YAML 1.2.2, 10.3.2, except .inf and .nan. */
static void scalars_are_of_the_core_schema(void **state AS_UNUSED)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
    static const char *const wholes[] = {"0", "-0", "+12", "-7", "007", "0o17", "0xFf"};
    static const char *const reals[] = {"1.", ".5", "-1.25e+3", "1e9", "+.5E-1"};
    static const char *const words[] = {"no",    "yes",   "on",  "off", "y",    "tRUE", "nULL",
                                        "1_000", "12:30", "0o8", "0xg", "1e",   ".",    "-",
                                        "1.2.3", "- 1",   "e1",  "0b1", ".inf", ".nan", "+0x1"};

    for (size_t i = 0; i < AS_COUNT(nulls); i++)
        assert_int_equal(is(nulls[i]), AS_SPEC_NULL);
    for (size_t i = 0; i < AS_COUNT(bools); i++)
        assert_int_equal(is(bools[i]), AS_SPEC_WORD_BOOL);
    for (size_t i = 0; i < AS_COUNT(wholes); i++)
        assert_int_equal(is(wholes[i]), AS_SPEC_WHOLE);
    for (size_t i = 0; i < AS_COUNT(reals); i++)
        assert_int_equal(is(reals[i]), AS_SPEC_REAL);
    for (size_t i = 0; i < AS_COUNT(words); i++)
        assert_int_equal(is(words[i]), AS_SPEC_WORD);
    assert_int_equal(as_spec_scalar(&(struct as_spec_node){.text = AS_STR("5")}), AS_SPEC_WORD);
}

static void check_i64(const char *text, int err, int64_t want)
{
    struct as_spec_node n = {.plain = true, .text = as_str_of(text)};
    int64_t v = 0;

    assert_int_equal(as_spec_scalar(&n), AS_SPEC_WHOLE);
    assert_int_equal(as_spec_scalar_i64(&n, &v), err);
    assert_true(v == want);
}

static void whole_numbers_have_64_bits(void **state AS_UNUSED)
{
    check_i64("0o17", 0, 15);
    check_i64("0xfF", 0, 255);
    check_i64("-0012", 0, -12);
    check_i64("9223372036854775807", 0, INT64_MAX);
    check_i64("-9223372036854775808", 0, INT64_MIN);
    check_i64("9223372036854775808", AS_EINVALID, 0);
    check_i64("-9223372036854775809", AS_EINVALID, 0);
    check_i64("0x7fffffffffffffff", 0, INT64_MAX);
    check_i64("0xffffffffffffffffff", AS_EINVALID, 0);
}

static double as_real(const char *text)
{
    struct as_spec_node n = {.plain = true, .text = as_str_of(text)};

    return as_spec_scalar_f64(&n);
}

static void numbers_above_64_bits_are_large_as_reals(void **state AS_UNUSED)
{
    assert_true(as_real("0o17") == 15);
    assert_true(as_real("0xff") == 255);
    assert_true(as_real("0o7777777777777777777777") > 1e18);
    assert_true(as_real("0xffffffffffffffffff") > 1e18);
}

static void an_empty_text_is_null(void **state AS_UNUSED)
{
    assert_int_equal(as_spec_scalar(ok("")), AS_SPEC_NULL);
    assert_int_equal(as_spec_scalar(ok("# only this\n")), AS_SPEC_NULL);
    assert_int_equal(as_spec_scalar(ok("---\n...\n")), AS_SPEC_NULL);
    assert_int_equal(ok("\xef\xbb\xbf"
                        "a: 1")
                         ->type,
                     AS_SPEC_NODE_MAP); /* a byte order mark */
}

static void anchors_and_tags_are_refused(void **state AS_UNUSED)
{
    refused("a: &x [1]\nb: *x\n", "f:1:4: anchors (&) and aliases (*) are not supported\n");
    refused("a: 1\nb: *x\n", "f:2:4: anchors (&) and aliases (*) are not supported\n");
    refused("a: !!str 5\n",
            "f:1:4: tags (!) are not supported; write a number in quotes to make it a text\n");
    refused("a: 1\n---\nb: 2\n",
            "f:2:1: a second document starts here; a file must have only one\n");
    refused("? [a]\n: 1\n", "f:1:3: a key must be a text, not a list\n");
    refused("{{a: 1}: 2}", "f:1:2: a key must be a text, not a mapping\n");
}

static void duplicate_keys_are_reported(void **state AS_UNUSED)
{
    refused("a: 1\nb: 2\n'a': 3\nb: 4\na: 5\n",
            "f:3:1: a: duplicate key; the first one is in line 1\n"
            "f:5:1: a: duplicate key; the first one is in line 3\n"
            "f:4:1: b: duplicate key; the first one is in line 2\n");
    ok("a: {x: 1}\nb: {x: 1}\n");
}

static void syntax_errors_have_a_place(void **state AS_UNUSED)
{
    refused("a: [1\n", "f:2:1: not YAML: did not find expected ',' or ']' while parsing a flow "
                       "sequence\n");
    refused("a: 1\n\tb: 2\n", "f:2:1: this line is indented by a tab; YAML permits only spaces\n");
    refused("a:\n\tb: 2\n", "f:2:1: this line is indented by a tab; YAML permits only spaces\n");
    refused("a:\n  - b: 2\n  \tc: 2\n",
            "f:3:3: this line is indented by a tab; YAML permits only spaces\n");
    refused("\ta: 2\n", "f:1:1: this line is indented by a tab; YAML permits only spaces\n");
    refused("a: \t@\n", "f:1:5: not YAML: found character that cannot start any token "
                        "while scanning for the next token\n"); /* this tab is not an indentation */
    refused("a: \"\\q\"", "f:1:5: not YAML: found unknown escape character while parsing a quoted "
                          "scalar\n");
    refused("a: \xff", "f: not UTF-8 text: invalid leading UTF-8 octet at byte 3\n");
    read_depth("a: \0b", 5, 20);
    assert_string_equal((char *)err_text.p,
                        "f: not UTF-8 text: control characters are not allowed at byte 3\n");
}

static void an_error_is_one_line(void **state AS_UNUSED)
{
    refused("\"a\\nb\": 1\n\"a\\nb\": 2\n",
            "f:2:1: a?b: duplicate key; the first one is in line 1\n");
}

static void depth_is_bounded(void **state AS_UNUSED)
{
    assert_non_null(read_depth("[[[1]]]", 7, 3));
    assert_string_equal((char *)err_text.p, "");
    assert_null(read_depth("[[[1]]]", 7, 2));
    assert_string_equal((char *)err_text.p,
                        "f:1:3: nested deeper than 2 levels (--max-spec-depth)\n");
}

/* 4 MiB of brackets must not take quadratic time. */
static void deep_nesting_is_refused_early(void **state AS_UNUSED)
{
    size_t n = 4u << 20;
    char *text = malloc(n);

    memset(text, '[', n);
    assert_null(read_depth(text, n, 1000));
    free(text);
}

static void errors_are_counted_beyond_their_bound(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    struct as_spec_errors e = {.out = &out, .name = "f", .max = 2};

    assert_int_equal(as_spec_errors_end(&e), 0);
    as_spec_error(&e, 1, 2, "one");
    as_spec_error(&e, 0, 0, "two");
    assert_int_equal(as_spec_errors_end(&e), AS_EINVALID);
    assert_true(as_str_eq(as_buf_slice(&out), AS_STR("f:1:2: one\nf: two\n")));
    as_spec_error(&e, 3, 1, "three");
    assert_int_equal(as_spec_errors_end(&e), AS_EINVALID);
    assert_true(as_str_eq(as_buf_slice(&out), AS_STR("f:1:2: one\nf: two\nf: and 1 more\n")));
    as_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_keep_their_order_and_places),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(scalars_are_of_the_core_schema),
        cmocka_unit_test(whole_numbers_have_64_bits),
        cmocka_unit_test(numbers_above_64_bits_are_large_as_reals),
        cmocka_unit_test(an_empty_text_is_null),
        cmocka_unit_test(anchors_and_tags_are_refused),
        cmocka_unit_test(duplicate_keys_are_reported),
        cmocka_unit_test(syntax_errors_have_a_place),
        cmocka_unit_test(an_error_is_one_line),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(deep_nesting_is_refused_early),
        cmocka_unit_test(errors_are_counted_beyond_their_bound),
    };
    int rc;

    as_arena_init(&arena, NULL, 0);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    as_arena_fini(&arena);
    as_buf_fini(&err_text);
    return rc;
}
