/* Specification of io/process/cpu_limit: the CPU time that counts, from sample files. */
#include "io/process/cpu_limit.h"

#include "support/sample_root.h"

#include <sched.h>

static void without_files_it_is_the_affinity(void **state AS_UNUSED)
{
    cpu_set_t cpus;

    assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
    assert_int_equal(as_cpu_limit_affinity(0), CPU_COUNT(&cpus));
    assert_int_equal(as_cpu_limit(root), CPU_COUNT(&cpus));
}

static void version_two_takes_the_smallest_quota_on_the_way_up(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "0::/a/b\n");
    write_sample("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
    write_sample("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 2500);
    write_sample("/sys/fs/cgroup/a/b/cpu.max", "25000 50000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 500);
    assert_int_equal(as_cpu_limit(root), 1);
}

static void version_one_wins_where_it_has_the_controller(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "7:cpuset:/\n4:cpu,cpuacct:/m\n3:memory:/x\n0::/\n");
    write_sample("/sys/fs/cgroup/cpu.max", "1000 100000\n"); /* of version 2: does not count */
    write_sample("/sys/fs/cgroup/cpu/m/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0); /* without the period it says nothing */
    write_sample("/sys/fs/cgroup/cpu/m/cpu.cfs_period_us", "100000\n");
    write_sample("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    write_sample("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 1500);
    write_sample("/sys/fs/cgroup/cpu/m/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
}

/* "cpuset" and "cpuacct" alone are other controllers. */
static void only_the_whole_name_is_the_controller(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "7:cpuset:/m\n6:cpuacct:/m\n");
    write_sample("/sys/fs/cgroup/cpu/m/cpu.cfs_quota_us", "150000\n");
    write_sample("/sys/fs/cgroup/cpu/m/cpu.cfs_period_us", "100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
}

/* A container sees its own group as the root of the mount, under a path that it does not see. */
static void a_hidden_path_falls_back_to_the_mount(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "0::/kubepods/pod0123\n");
    write_sample("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 1000);
    assert_int_equal(as_cpu_limit(root), 1);
}

static void another_process_has_its_own_group(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "0::/mine\n");
    write_sample("/proc/77/cgroup", "0::/its\n");
    write_sample("/sys/fs/cgroup/its/cpu.max", "300000 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
    assert_int_equal(as_cpu_limit_quota(root, 77), 3000);
    assert_int_equal(as_cpu_limit_quota(root, 78), 0); /* there is no such process */
}

static void a_quota_is_at_least_a_thousandth(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "0::/\n");
    write_sample("/sys/fs/cgroup/cpu.max", "1 1000000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 1);
    assert_int_equal(as_cpu_limit(root), 1);
}

static void a_quota_of_more_than_any_machine_has_is_none(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "0::/\n");
    write_sample("/sys/fs/cgroup/cpu.max", "102399999 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 1023999);
    write_sample("/sys/fs/cgroup/cpu.max", "102400000 100000\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
    write_sample("/sys/fs/cgroup/cpu.max", "18446744073709551615 1\n");
    assert_int_equal(as_cpu_limit_quota(root, 0), 0);
}

static void invalid_files_are_ignored(void **state AS_UNUSED)
{
    static const char *const texts[] = {"",
                                        "rubbish\n",
                                        "100000\n",
                                        "100000 0\n",
                                        "0 100000\n",
                                        "-1",
                                        "\n",
                                        "100000 max\n",
                                        "99999999999999999999999 100000\n",
                                        "1 4294967297\n"};

    write_sample("/proc/self/cgroup", "rubbish\n:\n0::/a\n");
    for (size_t i = 0; i < AS_COUNT(texts); i++) {
        write_sample("/sys/fs/cgroup/a/cpu.max", texts[i]);
        assert_int_equal(as_cpu_limit_quota(root, 0), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_files_it_is_the_affinity, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_two_takes_the_smallest_quota_on_the_way_up,
                                        make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_one_wins_where_it_has_the_controller, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(only_the_whole_name_is_the_controller, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(a_hidden_path_falls_back_to_the_mount, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(another_process_has_its_own_group, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_quota_is_at_least_a_thousandth, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_quota_of_more_than_any_machine_has_is_none, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(invalid_files_are_ignored, make_root, remove_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
