/* Specification of conf/spec/spec_spawn: the keys of a deployment as settings of a replica's
 * process. */
#include "conf/spec/spec_spawn.h"

#include "spec_case.h"

static void check_take(struct as_spec_devices *d, int64_t thousandths, const char *want)
{
    struct as_buf list = {0};
    int rc = as_spec_devices_allocate(d, thousandths, &list);

    assert_int_equal(rc, want ? 0 : AS_EFULL);
    assert_true(as_str_eq(as_buf_slice(&list), as_str_of(want ? want : "")));
    as_buf_fini(&list);
}

static void whole_devices_are_allocated_in_order(void **state AS_UNUSED)
{
    struct as_spec_devices d;

    assert_int_equal(as_spec_devices_init(&d, "2-3,7"), 0);
    assert_int_equal(d.n, 3);
    check_take(&d, 2000, "2,3");
    check_take(&d, 2000, NULL); /* one is free, and stays free */
    check_take(&d, 1000, "7");
    check_take(&d, 1000, NULL);
    check_take(&d, 0, "");
    assert_int_equal(as_spec_devices_release(&d, 2000, "2,3"), 0);
    check_take(&d, 1000, "2");
}

static void parts_share_the_fullest_device(void **state AS_UNUSED)
{
    struct as_spec_devices d;

    assert_int_equal(as_spec_devices_init(&d, "0,1"), 0);
    check_take(&d, 600, "0");
    check_take(&d, 600, "1");
    check_take(&d, 400, "0");
    check_take(&d, 300, "1");
    check_take(&d, 300, NULL);
    check_take(&d, 1000, NULL); /* a whole device must be unused */
    assert_int_equal(as_spec_devices_release(&d, 400, "0"), 0);
    check_take(&d, 300, "0");
}

static void allocations_are_restored_after_a_restart(void **state AS_UNUSED)
{
    struct as_spec_devices d;

    assert_int_equal(as_spec_devices_init(&d, "0-3"), 0);
    assert_int_equal(as_spec_devices_claim(&d, 2000, "1,3"), 0);
    assert_int_equal(as_spec_devices_claim(&d, 500, "0"), 0);
    check_take(&d, 1000, "2");
    /* twice, an unknown device, another amount, not a list */
    assert_int_equal(as_spec_devices_claim(&d, 1000, "1"), AS_EINVALID);
    assert_int_equal(as_spec_devices_claim(&d, 1000, "9"), AS_EINVALID);
    assert_int_equal(as_spec_devices_release(&d, 2000, "1"), AS_EINVALID);
    assert_int_equal(as_spec_devices_release(&d, 1000, "1;"), AS_EINVALID);
    assert_int_equal(as_spec_devices_release(&d, 600, "0"), AS_EINVALID);
    assert_int_equal(as_spec_devices_release(&d, 500, "0"), 0);
    check_take(&d, 1000, "0");
}

static void lists_are_bounded(void **state AS_UNUSED)
{
    static const char *const bad[] = {"x", "1-", "2-1", "1,", ",1", "65536", "0-1024"};
    struct as_spec_devices d;

    assert_int_equal(as_spec_devices_init(&d, ""), 0); /* a machine without GPUs */
    assert_int_equal(d.n, 0);
    check_take(&d, 1000, NULL);
    assert_int_equal(as_spec_devices_init(&d, "0-1023"), 0);
    assert_int_equal(d.n, AS_SPEC_DEVICES_MAX);
    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_int_equal(as_spec_devices_init(&d, bad[i]), AS_EINVALID);
}

/* Compares the environment, whose lines are separated by ';' in `want`. */
static void check_env_with(const char *lines, const char *gpus, uint32_t threads, const char *want)
{
    struct as_spec *s = parse(lines);
    struct as_spec_spawn p;
    struct as_buf b = {0};

    as_spec_spawn_init(&p, app_of(s, 0), deployment_of(s, 0, 0), gpus, NULL, threads);
    for (size_t i = 0; p.env[i]; i++)
        as_buf_printf(&b, "%s;", p.env[i]);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, want);
    as_buf_fini(&b);
    as_spec_spawn_fini(&p);
    as_spec_free(s);
}

static void check_env(const char *lines, const char *gpus, const char *want)
{
    check_env_with(lines, gpus, 0, want);
}

static void threads_are_for_deployments_without_num_cpus(void **state AS_UNUSED)
{
    check_env_with(DEPLOYMENT("# nothing"), NULL, 3,
                   "OMP_NUM_THREADS=3;MKL_NUM_THREADS=3;OPENBLAS_NUM_THREADS=3;"
                   "NUMEXPR_NUM_THREADS=3;VECLIB_MAXIMUM_THREADS=3;");
    check_env_with(DEPLOYMENT("num_cpus: 1, env: {OMP_NUM_THREADS: 8}"), NULL, 3,
                   "OMP_NUM_THREADS=8;MKL_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1;"
                   "NUMEXPR_NUM_THREADS=1;VECLIB_MAXIMUM_THREADS=1;");
}

static void keys_become_variables(void **state AS_UNUSED)
{
    check_env(DEPLOYMENT("# nothing"), NULL, "");
    check_env(DEPLOYMENT("num_cpus: 1.5, env: {A: 1}"), NULL,
              "A=1;OMP_NUM_THREADS=2;MKL_NUM_THREADS=2;OPENBLAS_NUM_THREADS=2;"
              "NUMEXPR_NUM_THREADS=2;VECLIB_MAXIMUM_THREADS=2;");
    check_env(DEPLOYMENT("num_gpus: 2"), "4,6", "CUDA_VISIBLE_DEVICES=4,6;");
    check_env(DEPLOYMENT("num_gpus: 0"), "", "CUDA_VISIBLE_DEVICES=;");
    /* the user's variables are not replaced */
    check_env(DEPLOYMENT("num_cpus: 1, num_gpus: 1, env: {OMP_NUM_THREADS: 8, MKL_NUM_THREADS: 8, "
                         "CUDA_VISIBLE_DEVICES: 7, OPENBLAS_NUM_THREADS: 8, NUMEXPR_NUM_THREADS: "
                         "8}"),
              "0",
              "CUDA_VISIBLE_DEVICES=7;MKL_NUM_THREADS=8;NUMEXPR_NUM_THREADS=8;OMP_NUM_THREADS=8;"
              "OPENBLAS_NUM_THREADS=8;VECLIB_MAXIMUM_THREADS=1;");
}

static void keys_become_limits(void **state AS_UNUSED)
{
    struct as_spec *s = parse(DEPLOYMENT("memory: 1G, cpu_affinity: 0-1, working_dir: /srv"));
    struct as_spec_spawn p;

    as_spec_spawn_init(&p, app_of(s, 0), deployment_of(s, 0, 0), NULL, "5", 0);
    assert_int_equal(p.memory, 1 << 30);
    assert_string_equal(p.cpus, "0-1");
    assert_string_equal(p.dir, "/srv");
    as_spec_spawn_fini(&p);
    as_spec_free(s);
    s = parse(DEPLOYMENT("num_cpus: 1, cpu_affinity: auto"));
    as_spec_spawn_init(&p, app_of(s, 0), deployment_of(s, 0, 0), NULL, "5", 0);
    assert_string_equal(p.cpus, "5");
    assert_int_equal(p.memory, 0);
    assert_null(p.dir);
    as_spec_spawn_fini(&p);
    as_spec_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_devices_are_allocated_in_order),
        cmocka_unit_test(parts_share_the_fullest_device),
        cmocka_unit_test(allocations_are_restored_after_a_restart),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(keys_become_variables),
        cmocka_unit_test(threads_are_for_deployments_without_num_cpus),
        cmocka_unit_test(keys_become_limits),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
