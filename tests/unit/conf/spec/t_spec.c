/* Specification of conf/spec/spec: the values of a deployment file, and the errors of an invalid
 * one. */
#include "conf/spec/spec.h"

#include "spec_case.h"

static void a_file_has_applications_and_they_have_deployments(void **state AS_UNUSED)
{
    struct as_spec *s = parse("applications:\n"
                              "  - name: shop\n"
                              "    import_path: shop:app\n"
                              "    deployments:\n"
                              "      - name: rank\n"
                              "        num_replicas: 4\n"
                              "      - {name: \"5\", version: 1.10}\n"
                              "  - name: resize\n"
                              "    command: [./resize, --quality, 80, yes]\n");
    const struct as_spec_object *shop = app_of(s, 0), *rank;

    assert_int_equal(as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS), 2);
    assert_string_equal(as_spec_str(shop, AS_SPEC_APPLICATION_IMPORT_PATH), "shop:app");
    assert_int_equal(as_spec_count(shop, AS_SPEC_APPLICATION_DEPLOYMENTS), 2);
    rank = as_spec_find(shop, AS_SPEC_APPLICATION_DEPLOYMENTS, AS_STR("rank"));
    assert_int_equal(as_spec_i64(rank, AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 4);
    assert_int_equal(as_spec_value(rank, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)->from, AS_SPEC_FROM_FILE);
    assert_int_equal(as_spec_value(rank, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)->line, 6);
    assert_int_equal(as_spec_value(rank, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)->column, 23);
    assert_string_equal(as_spec_str(deployment_of(s, 0, 1), AS_SPEC_DEPLOYMENT_VERSION), "1.10");
    assert_null(as_spec_find(shop, AS_SPEC_APPLICATION_DEPLOYMENTS, AS_STR("other")));
    assert_int_equal(as_spec_count(app_of(s, 1), AS_SPEC_APPLICATION_COMMAND), 4);
    assert_string_equal(as_spec_text(app_of(s, 1), AS_SPEC_APPLICATION_COMMAND, 2), "80");
    assert_string_equal(as_spec_text(app_of(s, 1), AS_SPEC_APPLICATION_COMMAND, 3), "yes");
    as_spec_free(s);
}

static void unset_keys_have_the_default(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT("version: , idempotent: null, num_gpus: ~"));
    const struct as_spec_object *d = deployment_of(s, 0, 0);

    assert_string_equal(as_spec_str(app_of(s, 0), AS_SPEC_APPLICATION_NAME), "default");
    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS), 1);
    assert_int_equal(as_spec_value(d, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)->from, AS_SPEC_FROM_DEFAULT);
    assert_int_equal(as_spec_ns(d, AS_SPEC_DEPLOYMENT_HEALTH_CHECK_PERIOD), 10 * AS_SEC);
    assert_int_equal(as_spec_ns(d, AS_SPEC_DEPLOYMENT_SHUTDOWN_TIMEOUT), 20 * AS_SEC);
    assert_int_equal(as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_ROLLING_UPDATE), 200);
    /* keys without a default: the code or the server decides */
    assert_false(as_spec_is_set(d, AS_SPEC_DEPLOYMENT_VERSION));
    assert_false(as_spec_is_set(d, AS_SPEC_DEPLOYMENT_IDEMPOTENT));
    assert_false(as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_GPUS));
    assert_false(as_spec_is_set(d, AS_SPEC_DEPLOYMENT_MAX_ONGOING_REQUESTS));
    assert_string_equal(
        as_spec_str(as_spec_object(d, AS_SPEC_DEPLOYMENT_LOGGING, 0), AS_SPEC_LOGGING_LEVEL),
        "INFO");
    as_spec_free(s);
}

static void every_type_is_read(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT(
        "idempotent: true, max_queued_requests: -1, request_timeout_s: 0.25, num_cpus: 1.5,\n"
        "memory: 512M, cpu_affinity: '0-3,8', env: {B: no, A: 1.50, C: ''},\n"
        "logging_config: {log_level: DEBUG}, warmup_requests: [{request: {inputs: []}}],\n"
        "user_config: {b: [1, 2.0, 1e3, null, \"x\\ty\", no, True], a: {}, 5: 0x10}"));
    const struct as_spec_object *d = deployment_of(s, 0, 0), *w;

    assert_int_equal(as_spec_value(d, AS_SPEC_DEPLOYMENT_IDEMPOTENT)->i, 1);
    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_MAX_QUEUED_REQUESTS), -1);
    assert_int_equal(as_spec_ns(d, AS_SPEC_DEPLOYMENT_REQUEST_TIMEOUT), 250 * AS_MS);
    assert_int_equal(as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_CPUS), 1500);
    assert_int_equal(as_spec_i64(d, AS_SPEC_DEPLOYMENT_MEMORY), 512 << 20);
    assert_string_equal(as_spec_str(d, AS_SPEC_DEPLOYMENT_CPU_AFFINITY), "0-3,8");
    assert_int_equal(as_spec_count(d, AS_SPEC_DEPLOYMENT_ENV), 3);
    assert_string_equal(as_spec_text(d, AS_SPEC_DEPLOYMENT_ENV, 0), "A=1.50");
    assert_string_equal(as_spec_text(d, AS_SPEC_DEPLOYMENT_ENV, 1), "B=no");
    assert_string_equal(as_spec_text(d, AS_SPEC_DEPLOYMENT_ENV, 2), "C=");
    /* as JSON with sorted keys */
    assert_string_equal(as_spec_str(d, AS_SPEC_DEPLOYMENT_USER_CONFIG),
                        "{\"5\":16,\"a\":{},\"b\":[1,2.0,1000.0,null,\"x\\ty\",\"no\",true]}");
    w = as_spec_object(d, AS_SPEC_DEPLOYMENT_WARMUP, 0);
    assert_string_equal(as_spec_str(w, AS_SPEC_WARMUP_REQUEST), "{\"inputs\":[]}");
    assert_int_equal(as_spec_i64(w, AS_SPEC_WARMUP_COUNT), 1);
    as_spec_free(s);
}

static void an_unknown_key_suggests_a_similar_one(void **state AS_UNUSED)
{
    refused("aplications: []\n", "f:1:1: aplications: unknown key; did you mean applications?\n"
                                 "f:1:1: applications: is missing; every file must have it\n");
    refused(DEPLOYMENT("num_replica: 2"),
            "f:2:1: num_replica: unknown key; did you mean num_replicas?\n");
    refused(DEPLOYMENT("colour: red"), "f:2:1: colour: unknown key of a deployment\n");
    /* keys of Ray Serve's files */
    refused(DEPLOYMENT("ray_actor_options: {num_cpus: 1}"),
            "f:2:1: ray_actor_options: unknown key; num_cpus, num_gpus, memory, env and "
            "working_dir belong to the deployment here\n");
    refused("http_options: {}\napplications: []",
            "f:1:1: http_options: unknown key; the server's options are given on its command "
            "line\n");
}

#define THREE(a, b, c)                                                                             \
    "applications: [{import_path: m, deployments: [\n{name: a" a "},\n{name: b" b "},\n{name: c" c \
    "}]}]\n"

static void fallbacks_must_not_form_a_circle(void **state AS_UNUSED)
{
    as_spec_free(parse(THREE(", fallback: b", ", fallback: c", "")));
    /* code may declare it */
    as_spec_free(parse(THREE(", fallback: later", "", "")));
    refused(THREE(", fallback: a", "", ""),
            "f:2:21: fallback: the deployments form a circle: a → a\n");
    /* reported once, and not for deployments outside of the circle */
    refused(THREE(", fallback: c", ", fallback: c", ", fallback: b"),
            "f:3:21: fallback: the deployments form a circle: b → c → b\n");
    refused(DEPLOYMENT("fallback: a/b/c"),
            "f:2:11: fallback: 'a/b/c' is neither the name of a deployment nor APPLICATION/NAME: "
            "letters, digits, '.', '_', '-'\n");
}

/* A name is one of the same application. */
static void a_fallback_may_be_of_another_application(void **state AS_UNUSED)
{
    as_spec_free(parse("applications:\n"
                       "- {name: p, import_path: m, deployments: [{name: x, fallback: q/x}]}\n"
                       "- {name: q, import_path: m, deployments: [{name: x}]}\n"));
    refused("applications:\n"
            "- {name: p, import_path: m, deployments: [{name: x, fallback: q/x}]}\n"
            "- {name: q, import_path: m, deployments: [{name: x, fallback: p/x}]}\n",
            "f:2:63: fallback: the deployments form a circle: x → q/x → p/x\n");
    refused("applications:\n"
            "- {name: p, import_path: m, deployments: [{name: x, fallback: x}]}\n"
            "- {name: q, import_path: m, deployments: [{name: x}]}\n",
            "f:2:63: fallback: the deployments form a circle: x → x\n");
}

static void a_chain_of_fallbacks_has_an_end(void **state AS_UNUSED)
{
    char text[1024] = "applications: [{import_path: m, deployments: [\n", line[64];
    struct as_spec_limits l = limits();

    for (int i = 0; i < 10; i++) { /* d0 → … → d9: nine links */
        snprintf(line, sizeof(line), i < 9 ? "{name: d%d, fallback: d%d},\n" : "{name: d%d}]}]\n",
                 i, i + 1);
        strcat(text, line);
    }
    assert_null(read_with(text, &l));
    assert_string_equal((char *)err_text.p,
                        "f:2:22: fallback: a chain of more than 8 deployments: d0 → d1 → d2 "
                        "→ d3 → d4 → d5 → d6 → d7 → d8, …\n");
    memcpy(strstr(text, ", fallback: d9"), "              ", 14);
    as_spec_free(parse(text));
}

static void a_wrong_type_is_reported_with_its_value(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("num_replicas: many"),
            "f:2:15: num_replicas: 'many' is not a whole number\n");
    refused(DEPLOYMENT("num_replicas: '2'"),
            "f:2:15: num_replicas: the text '2' is not a whole number\n");
    refused(DEPLOYMENT("num_replicas: 2.5"), "f:2:15: num_replicas: '2.5' is not a whole number\n");
    refused(DEPLOYMENT("idempotent: yes"), "f:2:13: idempotent: 'yes' is neither true nor false\n");
    refused(DEPLOYMENT("idempotent: 1"), "f:2:13: idempotent: '1' is neither true nor false\n");
    refused(DEPLOYMENT("request_timeout_s: 5s"),
            "f:2:20: request_timeout_s: '5s' is not a number of seconds\n");
    refused(DEPLOYMENT("num_cpus: [1]"), "f:2:11: num_cpus: a list is not a number\n");
    refused(DEPLOYMENT("memory: much"),
            "f:2:9: memory: 'much' is not a size (bytes, or with K, M, G, T)\n");
    refused(DEPLOYMENT("working_dir: 5"),
            "f:2:14: working_dir: '5' is a number; write it in quotes to make it a text\n");
    refused(DEPLOYMENT("working_dir: true"),
            "f:2:14: working_dir: 'true' is not a text; write it in quotes to make it one\n");
    refused(DEPLOYMENT("version: {a: 1}"), "f:2:10: version: a mapping is not a text\n");
    refused(DEPLOYMENT("env: [A=1]"), "f:2:6: env: a list is not a mapping of names to texts\n");
    refused(DEPLOYMENT("env: {A: }"),
            "f:2:10: A: nothing is not a text; write '' for an empty one\n");
    refused(DEPLOYMENT("logging_config: INFO"),
            "f:2:17: expected a mapping of logging keys, not 'INFO'\n");
    refused(DEPLOYMENT("logging_config: {log_level: info}"),
            "f:2:29: log_level: 'info' is not one of DEBUG, INFO, WARNING, ERROR, CRITICAL\n");
    refused(DEPLOYMENT("warmup_requests: [{request: 1}]"),
            "f:2:29: request: '1' is not a mapping\n");
    refused(DEPLOYMENT("user_config: [1e999]"),
            "f:2:15: user_config: '1e999' is too large a number\n");
    refused("applications: {}\n", "f:1:15: applications: a mapping is not a list\n");
    refused("- a\n", "f:1:1: expected a mapping of file keys, not a list\n");
    refused("", "f:1:1: expected a mapping of file keys, not nothing\n");
}

static void texts_have_no_zero_byte_and_names_have_a_form(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("version: \"a\\0b\""),
            "f:2:10: version: the text 'a' contains a zero byte\n");
    refused("applications: [{name: a b, import_path: m}]",
            "f:1:23: name: 'a b' is not a name: letters, digits, '.', '_', '-'\n");
    refused(DEPLOYMENT("env: {1A: x, A-B: x, '': x, ANYSERVE_LINK: x}"),
            "f:2:7: env: '1A' is not the name of a variable that can be set\n"
            "f:2:14: env: 'A-B' is not the name of a variable that can be set\n"
            "f:2:22: env: '' is not the name of a variable that can be set\n"
            "f:2:29: env: 'ANYSERVE_LINK' is not the name of a variable that can be set\n");
    refused(DEPLOYMENT("cpu_affinity: 0-"),
            "f:2:15: cpu_affinity: '0-' is neither auto nor a list of CPUs such as 0-3,8\n");
}

static void missing_keys_are_reported(void **state AS_UNUSED)
{
    refused("applications:\n  - import_path: m\n    deployments:\n      - num_replicas: 2\n",
            "f:4:9: name: is missing; every deployment must have it\n");
    refused("applications: [{name: a}]",
            "f:1:16: import_path: is missing; an application must have import_path or command\n");
    refused("applications: [{import_path: m, command: [x]}]",
            "f:1:16: import_path: command is given, too; an application must have only one of "
            "them\n");
    refused("applications: [{command: []}]",
            "f:1:26: command: has 0 items; 1 to 1024 are allowed\n");
    refused(DEPLOYMENT("warmup_requests: [{count: 2}]"),
            "f:2:19: request: is missing; every warmup must have it\n");
}

static void names_are_unique(void **state AS_UNUSED)
{
    refused("applications:\n- import_path: a\n- import_path: b\n",
            "f:3:3: name: 'default' is already the name of the application in line 2\n");
    refused("applications:\n"
            "- {name: a, import_path: a, deployments: [{name: x}, {name: y},\n{name: x}]}\n",
            "f:3:8: name: 'x' is already the name of the deployment in line 2\n");
    as_spec_free(parse("applications:\n"
                       "- {name: a, import_path: a, deployments: [{name: x}]}\n"
                       "- {name: b, import_path: b, deployments: [{name: x}]}\n"));
}

static void values_are_checked_against_each_other(void **state AS_UNUSED)
{
    as_spec_free(parse(DEPLOYMENT("num_gpus: 0.5")));
    as_spec_free(parse(DEPLOYMENT("num_gpus: 2")));
    refused(DEPLOYMENT("num_gpus: 1.5"), "f:2:11: num_gpus: above 1 it must be a whole number\n");
    as_spec_free(parse(DEPLOYMENT("cpu_affinity: auto, num_cpus: 1")));
    refused(DEPLOYMENT("cpu_affinity: auto"),
            "f:2:15: cpu_affinity: auto requires num_cpus, the number of CPUs\n");
    as_spec_free(parse(DEPLOYMENT("cpu_affinity: auto, num_cpus: 0.5")));
    refused(DEPLOYMENT("cpu_affinity: auto, num_cpus: 1.5"),
            "f:2:31: num_cpus: above 1 it must be a whole number, for cpu_affinity: auto\n");
    as_spec_free(parse(DEPLOYMENT("cpu_affinity: 1023")));
    refused(DEPLOYMENT("cpu_affinity: '0,5-1024'"),
            "f:2:15: cpu_affinity: '5-1024' is not a range of CPUs\n");
    refused(DEPLOYMENT("cpu_affinity: 3-1"),
            "f:2:15: cpu_affinity: '3-1' is not a range of CPUs\n");
}

static void all_errors_are_reported_together(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();

    refused(DEPLOYMENT("num_replicas: x,\nidempotent: 2,\nnmae: d"),
            "f:2:15: num_replicas: 'x' is not a whole number\n"
            "f:3:13: idempotent: '2' is neither true nor false\n"
            "f:4:1: nmae: unknown key; did you mean name?\n");
    l.errors = 1;
    assert_null(read_with(DEPLOYMENT("num_replicas: x,\nidempotent: 2,\nnmae: d"), &l));
    assert_string_equal((char *)err_text.p, "f:2:15: num_replicas: 'x' is not a whole number\n"
                                            "f: and 2 more\n");
}

/* For each row with a number: the value at a bound is accepted, the next one is refused. */
static void check_number(const struct as_spec_row *row, int64_t v, bool good)
{
    struct as_spec_limits l = limits();
    double unit = row->type == AS_SPEC_NUMBER ? 1000 : row->type == AS_SPEC_DURATION ? 1e9 : 1;
    bool of_file = row->level == AS_SPEC_LEVEL_FILE, of_warmup = row->level == AS_SPEC_LEVEL_WARMUP;
    char text[200];
    struct as_spec *s;

    snprintf(text, sizeof(text),
             of_file ? "{applications: [], %s: %.*f%s}" : DEPLOYMENT("%s: %.*f%s"),
             of_warmup ? "warmup_requests: [{request: {}, count" : row->key, unit == 1 ? 0 : 9,
             (double)v / unit, of_warmup ? "}]" : "");
    s = read_with(text, &l);
    if (good)
        assert_string_equal((char *)err_text.p, "");
    else
        assert_true(strstr((char *)err_text.p, "is below the minimum ") ||
                    strstr((char *)err_text.p, "is above the maximum "));
    as_spec_free(s);
}

static void numbers_are_bounded(void **state AS_UNUSED)
{
    uint32_t n = 0;

    for (size_t i = 0; i < AS_SPEC_KEYS; i++) {
        const struct as_spec_row *row = &as_spec_rows[i];

        if (row->type != AS_SPEC_INT && row->type != AS_SPEC_NUMBER &&
            row->type != AS_SPEC_DURATION && row->type != AS_SPEC_SIZE &&
            row->type != AS_SPEC_AMOUNT)
            continue;
        check_number(row, i == AS_SPEC_DEPLOYMENT_MAX_SURGE ? 1 : row->min, true); /* 0: below */
        check_number(row, row->min - 1, false);
        check_number(row, row->max, true);
        check_number(row, row->max + 1, false);
        n++;
    }
    assert_true(n > 12);
    refused(DEPLOYMENT("max_queued_requests: 0"),
            "f:2:22: max_queued_requests: '0' is not allowed; -1 means no limit\n");
    refused(DEPLOYMENT("priority_share: 1"),
            "f:2:17: priority_share: '1' is below the minimum 2\n");
    refused(DEPLOYMENT("rolling_update_percentage: 20"),
            "f:2:28: rolling_update_percentage: '20' is above the maximum 1\n");
    refused(DEPLOYMENT("memory: 1K"), "f:2:9: memory: '1K' is below the minimum 1M\n");
}

static void amounts_are_numbers_or_percentages(void **state AS_UNUSED)
{
    static const struct {
        const char *text;
        uint32_t n;
        bool percent;
    } good[] = {{"0", 0, false},   {"1024", 1024, false}, {"2.0", 2, false}, {"0%", 0, true},
                {"25%", 25, true}, {"'25%'", 25, true},   {"007%", 7, true}, {"100%", 100, true}};
    static const char *const bad[] = {"101%", "-1%",   "1.5%", "'%'",  "25 %",
                                      "'3'",  "0100%", "all",  "true", "[1]"};
    char text[200];
    bool percent;

    for (size_t i = 0; i < AS_COUNT(good); i++) {
        struct as_spec *s;
        struct as_spec_object *d;

        snprintf(text, sizeof(text), DEPLOYMENT("max_unavailable: %s"), good[i].text);
        s = parse(text);
        d = deployment_of(s, 0, 0);
        assert_int_equal(as_spec_amount(d, AS_SPEC_DEPLOYMENT_MAX_UNAVAILABLE, &percent),
                         good[i].n);
        assert_int_equal(percent, good[i].percent);
        as_spec_free(s);
    }
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        struct as_buf why = {0};
        struct as_spec_limits l = limits();
        struct as_spec *s;

        snprintf(text, sizeof(text), DEPLOYMENT("max_unavailable: %s"), bad[i]);
        assert_int_equal(as_spec_parse(&s, &l, "f", as_str_of(text), &why), AS_EINVALID);
        as_buf_add(&why, "", 1);
        assert_non_null(strstr((char *)why.p, "is neither a whole number nor a percentage"));
        as_buf_fini(&why);
    }
    refused(DEPLOYMENT("max_surge: 0"),
            "f:2:12: max_surge: must not be 0 when max_unavailable is 0\n");
    refused(DEPLOYMENT("max_surge: 0%, max_unavailable: 0"),
            "f:2:12: max_surge: must not be 0 when max_unavailable is 0\n");
}

static void check_length(const struct as_spec_row *row, size_t n, bool good)
{
    struct as_spec_limits l = limits();
    char *text = malloc(n + 200), *value = malloc(n + 1);
    bool app = row->level == AS_SPEC_LEVEL_APPLICATION;

    memset(value, 'x', n);
    value[n] = 0;
    if (strcmp(row->words, "cpus") == 0) {
        for (size_t i = 0; i < n; i++)
            value[i] = i % 2 == 0 || i == n - 1 ? '1' : ',';
    }
    if (strcmp(row->words, "prefix") == 0 && n)
        value[0] = '/';
    if (strcmp(row->words, "code") == 0 && n <= 4) {
        memcpy(value, "copy", n);
    } else if (strcmp(row->words, "code") == 0) {
        memset(value, 'a', 7 + 64);
        memcpy(value, "sha256:", 7);
        value[7 + 64] = '/';
    }
    if (app && strcmp(row->key, "import_path") != 0)
        snprintf(text, n + 200, "applications: [{import_path: m, %s: '%s'}]", row->key, value);
    else if (app)
        snprintf(text, n + 200, "applications: [{import_path: '%s'}]", value);
    else if (row->level == AS_SPEC_LEVEL_WARMUP)
        snprintf(text, n + 200, DEPLOYMENT("warmup_requests: [{request: {}, %s: '%s'}]"), row->key,
                 value);
    else if (row->level == AS_SPEC_LEVEL_LOGGING)
        snprintf(text, n + 200, DEPLOYMENT("logging_config: {%s: '%s'}"), row->key, value);
    else if (strcmp(row->key, "name") == 0)
        snprintf(text, n + 200, "applications: [{import_path: m, deployments: [{name: '%s'}]}]",
                 value);
    else
        snprintf(text, n + 200, DEPLOYMENT("%s: '%s'"), row->key, value);
    as_spec_free(read_with(text, &l));
    if (good)
        assert_string_equal((char *)err_text.p, "");
    else
        assert_non_null(strstr((char *)err_text.p, "must have"));
    free(value);
    free(text);
}

static void texts_are_bounded(void **state AS_UNUSED)
{
    uint32_t n = 0;

    for (size_t i = 0; i < AS_SPEC_KEYS; i++) {
        const struct as_spec_row *row = &as_spec_rows[i];

        if (row->type != AS_SPEC_STRING && row->type != AS_SPEC_TEXT)
            continue;
        check_length(row, (size_t)row->min, true);
        check_length(row, (size_t)row->min - 1, false);
        check_length(row, (size_t)row->max, true);
        check_length(row, (size_t)row->max + 1, false);
        n++;
    }
    assert_true(n > 7);
}

/* "KEY: [x, x, …]" and its like with n items. */
static void check_items(const char *before, const char *item, const char *after, uint32_t n,
                        const struct as_spec_limits *l, const char *want)
{
    struct as_buf b = {0};
    struct as_spec *s;

    as_buf_str(&b, before);
    for (uint32_t i = 0; i < n; i++) {
        as_buf_str(&b, i ? "," : "");
        for (const char *p = item; *p; p++) {
            if (*p == '#')
                as_buf_printf(&b, "%u", i);
            else
                as_buf_add(&b, p, 1);
        }
    }
    as_buf_str(&b, after);
    as_buf_add(&b, "", 1);
    s = read_with((char *)b.p, l);
    assert_string_equal((char *)err_text.p, want);
    as_spec_free(s);
    as_buf_fini(&b);
}

static void counts_are_bounded(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();

    check_items("applications: [{command: [", "x", "]}]", 1024, &l, "");
    check_items("applications: [{command: [", "x", "]}]", 1025, &l,
                "f:1:26: command: has 1025 items; 1 to 1024 are allowed\n");
    check_items("applications: [{import_path: m, env: {", "A#: x", "}}]", 1024, &l, "");
    check_items("applications: [{import_path: m, env: {", "A#: x", "}}]", 1025, &l,
                "f:1:38: env: has 1025 items; 0 to 1024 are allowed\n");
    check_items("applications: [{import_path: m, deployments: [{name: d, warmup_requests: [",
                "{request: {}}", "]}]}]", 100, &l, "");
    check_items("applications: [{import_path: m, deployments: [{name: d, warmup_requests: [",
                "{request: {}}", "]}]}]", 101, &l,
                "f:1:74: warmup_requests: has 101 items; at most 100 are allowed\n");
}

static void limits_of_a_file_are_options(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    const char *deep = DEPLOYMENT("user_config: [[1]]");

    l.applications = 2;
    check_items("applications: [", "{name: a#, import_path: m}", "]", 2, &l, "");
    check_items("applications: [", "{name: a#, import_path: m}", "]", 3, &l,
                "f:1:15: applications: has 3 items; at most 2 are allowed\n");
    l.deployments = 3; /* in all applications together */
    check_items("applications: [{import_path: m, deployments: [{name: x}]},"
                " {name: b, import_path: m, deployments: [",
                "{name: d#}", "]}]", 2, &l, "");
    check_items("applications: [{import_path: m, deployments: [{name: x}]},"
                " {name: b, import_path: m, deployments: [",
                "{name: d#}", "]}]", 3, &l,
                "f:1:99: deployments: has 3 items; at most 2 are allowed after those above\n");
    l.depth = 7;
    as_spec_free(read_with(deep, &l));
    assert_string_equal((char *)err_text.p, "");
    l.depth = 6;
    assert_null(read_with(deep, &l));
    assert_string_equal((char *)err_text.p,
                        "f:2:15: nested deeper than 6 levels (--max-spec-depth)\n");
    l = limits();
    l.bytes = strlen(deep);
    as_spec_free(read_with(deep, &l));
    assert_string_equal((char *)err_text.p, "");
    l.bytes--;
    assert_null(read_with(deep, &l));
    assert_non_null(strstr((char *)err_text.p, "f: more than "));
    assert_non_null(strstr((char *)err_text.p, "(--max-spec-bytes)\n"));
}

static void json_values_are_bounded(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    size_t most = 1 << 20;
    char *text = malloc(most + 200);
    int n;

    l.bytes = most + 200;
    for (size_t over = 0; over < 2; over++) {
        n = snprintf(text, 200, "%s",
                     "applications: [{import_path: m, deployments: [{name: d, "
                     "user_config: '");
        memset(text + n, 'x', most - 2 + over);
        strcpy(text + n + most - 2 + over, "'}]}]");
        as_spec_free(read_with(text, &l));
        assert_string_equal((char *)err_text.p,
                            over ? "f:1:70: user_config: has 1048577 bytes as JSON; 1048576 are "
                                   "allowed\n"
                                 : "");
    }
    free(text);
}

static void a_deployment_adds_to_its_application(void **state AS_UNUSED)
{
    struct as_spec *s = parse("applications:\n"
                              "- import_path: m\n"
                              "  working_dir: /app\n"
                              "  env: {A: app, A1: app, B: app}\n"
                              "  deployments:\n"
                              "  - {name: x, working_dir: /x, env: {A: x, C: x, AA: x}}\n"
                              "  - {name: y}\n");
    const char **env = as_spec_env(app_of(s, 0), deployment_of(s, 0, 0));
    static const char *const want[] = {"A1=app", "A=x", "AA=x", "B=app", "C=x"};

    for (size_t i = 0; i < AS_COUNT(want); i++)
        assert_string_equal(env[i], want[i]);
    assert_null(env[AS_COUNT(want)]);
    free(env);
    assert_string_equal(as_spec_working_dir(app_of(s, 0), deployment_of(s, 0, 0)), "/x");
    assert_string_equal(as_spec_working_dir(app_of(s, 0), deployment_of(s, 0, 1)), "/app");
    as_spec_free(s);
}

static void a_file_is_loaded(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = NULL;
    struct as_buf err = {0};
    char path[] = "/tmp/as-spec-XXXXXX";
    int fd = mkstemp(path);

    assert_int_equal(dprintf(fd, "applications: []\n"), 17);
    assert_int_equal(as_spec_load(&s, &l, path, &err), 0);
    assert_int_equal(as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS), 0);
    as_spec_free(s);
    l.bytes = 16;
    assert_int_equal(as_spec_load(&s, &l, path, &err), AS_EINVALID);
    assert_int_equal(as_spec_load(&s, &l, "/does/not/exist", &err), AS_ENOTFOUND);
    assert_int_equal(as_spec_load(&s, &l, "/tmp", &err), AS_EIO);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, "more than 16 bytes"));
    assert_non_null(strstr((char *)err.p, "/does/not/exist: No such file or directory\n"));
    assert_non_null(strstr((char *)err.p, "/tmp: Is a directory\n"));
    as_buf_fini(&err);
    assert_int_equal(remove(path), 0);
    assert_int_equal(fclose(fdopen(fd, "r")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_applications_and_they_have_deployments),
        cmocka_unit_test(unset_keys_have_the_default),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(an_unknown_key_suggests_a_similar_one),
        cmocka_unit_test(fallbacks_must_not_form_a_circle),
        cmocka_unit_test(a_fallback_may_be_of_another_application),
        cmocka_unit_test(a_chain_of_fallbacks_has_an_end),
        cmocka_unit_test(a_wrong_type_is_reported_with_its_value),
        cmocka_unit_test(texts_have_no_zero_byte_and_names_have_a_form),
        cmocka_unit_test(missing_keys_are_reported),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(values_are_checked_against_each_other),
        cmocka_unit_test(all_errors_are_reported_together),
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(amounts_are_numbers_or_percentages),
        cmocka_unit_test(texts_are_bounded),
        cmocka_unit_test(counts_are_bounded),
        cmocka_unit_test(limits_of_a_file_are_options),
        cmocka_unit_test(json_values_are_bounded),
        cmocka_unit_test(a_deployment_adds_to_its_application),
        cmocka_unit_test(a_file_is_loaded),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
