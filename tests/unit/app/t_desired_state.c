/* Specification of app/controller/desired_state: generations of the desired state, and the numbers
 * of replicas that `scale` sets beside the file. */
#include "app/controller/desired_state.h"

#include "unit.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define MAIN(keys)    "{name: shop, import_path: m, deployments: [{name: main" keys "}]}"
#define SIDE(keys)    "{name: extra, import_path: e, deployments: [{name: side" keys "}]}"
#define FILE_OF(a, b) "{applications: [" a ", " b "]}"

static char folder[64];
static struct as_buf err;
static struct as_desired_state d;

static int make_folder(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as_desired_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    as_buf_init(&err);
    return as_desired_state_open(&d, folder, 5, NULL, &err) == AS_ENOTFOUND ? 0 : -1;
}

static int remove_folder(void **state AS_UNUSED)
{
    char command[128];

    as_desired_state_close(&d);
    as_buf_fini(&err);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void put(const char *text)
{
    const struct as_desired_state_change change = {.cause = AS_STR("deploy")};

    assert_int_equal(as_desired_state_add(&d, &change, as_str_of(text), &err), 0);
}

static void add(struct as_declared *models, const char *deployment, const char *frame)
{
    as_declared_add_model(models, as_str_of(deployment), AS_STR("m:1"), as_str_of(frame));
}

/* As a deploy whose code was described. */
static void put_described(const char *text, const char *main_frame, const char *side_frame)
{
    struct as_declared models = {0};
    struct as_desired_state_change change = {.cause = AS_STR("deploy"), .models = &models};

    add(&models, "shop#main", main_frame);
    add(&models, "extra#side", side_frame);
    assert_int_equal(as_desired_state_add(&d, &change, as_str_of(text), &err), 0);
    as_declared_fini(&models);
}

static void check_models(const char *main_frame, const char *side_frame)
{
    const char *want[] = {main_frame, side_frame}, *name[] = {"shop#main", "extra#side"};

    for (size_t i = 0; i < AS_COUNT(want); i++) {
        const struct as_declared_deployment *now = as_declared_find(&d.models, as_str_of(name[i]));

        assert_true(!now == !want[i]);
        assert_true(!now || as_str_eq(as_buf_slice(&now->models[0].frame), as_str_of(want[i])));
    }
}

/* The id of a name, which may be one. */
static struct as_str id_of(const char *name)
{
    return as_str_of(strcmp(name, "main") == 0   ? "shop#main"
                     : strcmp(name, "side") == 0 ? "extra#side"
                                                 : name);
}

static void scale(const char *deployment, int64_t n)
{
    struct as_desired_state_change change = {
        .cause = AS_STR("scale"), .deployment = id_of(deployment), .replicas = n};
    struct as_buf text = {0};

    as_desired_state_write(d.spec, &text);
    assert_int_equal(as_desired_state_add(&d, &change, as_buf_slice(&text), &err), 0);
    as_buf_fini(&text);
}

static int64_t scaled(const char *deployment)
{
    return as_desired_state_scale_of(&d, 0, id_of(deployment));
}

static int64_t declared(const char *application, const char *deployment)
{
    const struct as_spec_object *app =
        as_spec_find(d.spec->file, AS_SPEC_FILE_APPLICATIONS, as_str_of(application));

    return as_spec_i64(as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS, as_str_of(deployment)),
                       AS_SPEC_DEPLOYMENT_NUM_REPLICAS);
}

static void open_again(void)
{
    as_desired_state_close(&d);
    assert_int_equal(as_desired_state_open(&d, folder, 5, NULL, &err), 0);
}

static void a_scale_is_valid_until_num_replicas_changes(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(", num_replicas: 2"), SIDE("")));
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
    scale("main", 4);
    assert_int_equal(scaled("main"), 4);
    assert_int_equal(declared("shop", "main"), 2);
    put(FILE_OF(MAIN(", num_replicas: 2, version: b"), SIDE(", num_replicas: 7")));
    assert_int_equal(scaled("main"), 4);
    open_again();
    assert_int_equal(scaled("main"), 4);
    put(FILE_OF(MAIN(", num_replicas: 3, version: b"), SIDE("")));
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
}

/* A file without num_replicas means the default, 1. */
static void the_default_of_num_replicas_counts_as_its_value(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(", num_replicas: 1"), SIDE("")));
    scale("main", 4);
    put(FILE_OF(MAIN(""), SIDE("")));
    assert_int_equal(scaled("main"), 4);
}

static void removing_a_deployment_drops_its_scale(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(""), SIDE("")));
    scale("main", 4);
    put("{applications: [" SIDE("") "]}");
    put(FILE_OF(MAIN(""), SIDE("")));
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
}

/* Of one name, in two applications: each has its number and its models. */
static void an_application_has_its_own_scales_and_models(void **state AS_UNUSED)
{
    static const char both[] =
        FILE_OF(MAIN(""), "{name: other, import_path: m, deployments: [{name: main}]}");
    struct as_declared models = {0};
    struct as_desired_state_change change = {.cause = AS_STR("deploy"), .models = &models};

    add(&models, "shop#main", "a");
    add(&models, "other#main", "b");
    assert_int_equal(as_desired_state_add(&d, &change, AS_STR(both), &err), 0);
    as_declared_fini(&models);
    scale("shop#main", 4);
    scale("other#main", 2);
    open_again();
    assert_int_equal(scaled("shop#main"), 4);
    assert_int_equal(scaled("other#main"), 2);
    assert_int_equal(as_declared_find(&d.models, AS_STR("shop#main"))->models[0].frame.p[0], 'a');
    assert_int_equal(as_declared_find(&d.models, AS_STR("other#main"))->models[0].frame.p[0], 'b');
    put(FILE_OF(MAIN(""), SIDE("")));
    assert_int_equal(scaled("shop#main"), 4);
    assert_int_equal(scaled("other#main"), AS_DESIRED_STATE_UNSCALED);
}

static void count_rows(void *arg, const struct as_store_scale *scale)
{
    *(int *)arg += as_str_eq(scale->deployment, AS_STR("main")) && scale->replicas == 4;
}

static void count_models(void *arg, const struct as_store_model *m)
{
    *(int *)arg += as_str_eq(m->deployment, AS_STR("side"));
}

/* Names alone, while they are unique: so an earlier version reads what this one has stored, and
 * the other way round. */
static void ids_are_stored_as_names(void **state AS_UNUSED)
{
    int scales = 0, models = 0;

    put_described(FILE_OF(MAIN(""), SIDE("")), "main a", "side a");
    scale("main", 4);
    assert_int_equal(as_store_each_scale(d.store, 2, count_rows, &scales, &err), 0);
    assert_int_equal(as_store_each_model(d.store, 2, count_models, &models, &err), 0);
    assert_int_equal(scales, 1);
    assert_int_equal(models, 1);
    assert_int_equal(as_desired_state_scale_of(&d, 2, AS_STR("shop#main")), 4);
}

static void each_deployment_has_its_own_scale(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(""), SIDE("")));
    scale("main", 4);
    scale("side", 0);
    scale("main", 5);
    assert_int_equal(scaled("main"), 5);
    assert_int_equal(scaled("side"), 0);
    scale("main", AS_DESIRED_STATE_UNSCALED);
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
    assert_int_equal(scaled("side"), 0);
    scale("side", 1); /* equal to the file: nothing is stored */
    assert_int_equal(scaled("side"), AS_DESIRED_STATE_UNSCALED);
    assert_int_equal(d.scales.n, 0);
}

static void an_older_generation_keeps_its_scales(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(""), SIDE(""))); /* 1 */
    scale("main", 4);                 /* 2 */
    put(FILE_OF(MAIN(", num_replicas: 2"), SIDE("")));
    assert_int_equal(as_desired_state_scale_of(&d, 1, id_of("main")), AS_DESIRED_STATE_UNSCALED);
    assert_int_equal(as_desired_state_scale_of(&d, 2, id_of("main")), 4);
    assert_int_equal(as_desired_state_scale_of(&d, 3, id_of("main")), AS_DESIRED_STATE_UNSCALED);
    assert_int_equal(as_desired_state_scale_of(&d, 99, id_of("main")), AS_DESIRED_STATE_UNSCALED);
}

static void back(uint64_t generation, bool whole, int64_t replicas)
{
    struct as_declared models = {0};
    struct as_desired_state_change change = {.cause = AS_STR("back"), .models = &models};
    struct as_buf text = {0};

    if (whole) {
        change.deployment = id_of("main");
        change.replicas = replicas;
    }
    assert_int_equal(as_desired_state_write_rollback(&d, AS_STR("shop"), AS_STR("main"), generation,
                                                     whole, &text, &err),
                     0);
    assert_int_equal(as_desired_state_models_with(&d, generation, AS_STR("shop"), &models, &err),
                     0);
    assert_int_equal(as_desired_state_add(&d, &change, as_buf_slice(&text), &err), 0);
    as_declared_fini(&models);
    as_buf_fini(&text);
}

static void models_are_kept_with_the_generation(void **state AS_UNUSED)
{
    put_described(FILE_OF(MAIN(", version: a"), SIDE("")), "main a", "side a");
    check_models("main a", "side a");
    scale("main", 4);
    check_models("main a", "side a");
    open_again();
    check_models("main a", "side a");
    put_described(FILE_OF(MAIN(", version: b"), SIDE(", version: b")), "main b", "side b");
    open_again();
    check_models("main b", "side b");
    back(1, false, 0); /* of main alone */
    check_models("main a", "side b");
    open_again();
    check_models("main a", "side b");
    put("{applications: [" SIDE("") "]}"); /* one is deleted */
    check_models(NULL, "side b");
}

/* Then they are not known, instead of being those of another version. */
static void a_generation_of_an_earlier_release_has_no_models(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(", version: a"), SIDE("")));
    check_models(NULL, NULL);
    put_described(FILE_OF(MAIN(", version: b"), SIDE("")), "main b", "side b");
    back(1, true, 2);
    check_models(NULL, "side b");
}

/* Both numbers stay as they are; only the version goes back. */
static void a_rollback_by_request_keeps_the_numbers(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(", num_replicas: 2, version: a"), SIDE("")));
    put(FILE_OF(MAIN(", num_replicas: 3, version: b"), SIDE("")));
    scale("main", 5);
    back(1, false, 0);
    assert_int_equal(declared("shop", "main"), 3);
    assert_int_equal(scaled("main"), 5);
    put(FILE_OF(MAIN(", num_replicas: 3, version: c"), SIDE(""))); /* the corrected file */
    assert_int_equal(scaled("main"), 5);
}

/* The number is that before the failed update, whether from the file or `scale`; num_replicas of
 * the restored file stays separate. */
static void a_failed_update_restores_the_earlier_number(void **state AS_UNUSED)
{
    put(FILE_OF(MAIN(", num_replicas: 2, version: a"), SIDE("")));
    scale("main", 5);
    put(FILE_OF(MAIN(", num_replicas: 3, version: b"), SIDE("")));
    back(1, true, 5);
    assert_int_equal(declared("shop", "main"), 2);
    assert_int_equal(scaled("main"), 5);
    put(FILE_OF(MAIN(", num_replicas: 3, version: c"), SIDE("")));
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
    back(1, true, 2);
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
}

/* In older releases `scale` wrote its number into the text. */
static void a_store_of_an_older_release_means_the_same(void **state AS_UNUSED)
{
    char file[128];
    sqlite3 *db;

    as_desired_state_close(&d);
    snprintf(file, sizeof(file), "%s/" AS_STORE_FILE, folder);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DROP TABLE scale; PRAGMA user_version = 3;"
                                  "INSERT INTO generation(time_ms, cause, spec) VALUES"
                                  "(1, 'deploy', '" FILE_OF(
                                      MAIN(", num_replicas: 2"),
                                      SIDE("")) "'),"
                                                "(2, 'scale main to 4', '" FILE_OF(
                                                    MAIN(", num_replicas: 4"), SIDE("")) "');",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(as_desired_state_open(&d, folder, 5, NULL, &err), 0);
    assert_int_equal(d.generation, 2);
    assert_int_equal(declared("shop", "main"), 4);
    assert_int_equal(scaled("main"), AS_DESIRED_STATE_UNSCALED);
    scale("main", 3);
    open_again();
    assert_int_equal(scaled("main"), 3);
    assert_int_equal(declared("shop", "main"), 4);
}

static void run_creates_the_store_with_the_first_change(void **state AS_UNUSED)
{
    static const char text[] =
        "{applications: [{import_path: m, deployments: [{name: main}]}]}"; /* of `default` */
    struct as_declared code = {0};
    char command[128];

    add(&code, "main", "main a");

    as_desired_state_close(&d);
    snprintf(command, sizeof(command), "rm %s/*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(as_desired_state_open_initial(&d, folder, 5, AS_STR(text), &code, NULL, &err),
                     0);
    assert_null(d.store);
    assert_non_null(as_declared_find(&d.models, AS_STR("default#main")));
    assert_int_equal(as_desired_state_scale_of(&d, 1, AS_STR("default#main")),
                     AS_DESIRED_STATE_UNSCALED);
    scale("default#main", 3);
    assert_int_equal(d.generation, 2);
    as_desired_state_close(&d);
    as_declared_fini(&code);
    assert_int_equal(as_desired_state_open_initial(&d, folder, 5, AS_STR(text), &code, NULL, &err),
                     0);
    assert_int_equal(scaled("default#main"), 3);
    assert_non_null(as_declared_find(&d.models, AS_STR("default#main"))); /* of generation 1 */
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_scale_is_valid_until_num_replicas_changes),
        IN_FOLDER(the_default_of_num_replicas_counts_as_its_value),
        IN_FOLDER(removing_a_deployment_drops_its_scale),
        IN_FOLDER(an_application_has_its_own_scales_and_models),
        IN_FOLDER(ids_are_stored_as_names),
        IN_FOLDER(each_deployment_has_its_own_scale),
        IN_FOLDER(an_older_generation_keeps_its_scales),
        IN_FOLDER(models_are_kept_with_the_generation),
        IN_FOLDER(a_generation_of_an_earlier_release_has_no_models),
        IN_FOLDER(a_rollback_by_request_keeps_the_numbers),
        IN_FOLDER(a_failed_update_restores_the_earlier_number),
        IN_FOLDER(a_store_of_an_older_release_means_the_same),
        IN_FOLDER(run_creates_the_store_with_the_first_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
