/* Specification of ctl/supervise/memory_limit: the limit that counts, and the kernel's kills, from
 * sample files. */
#include "ctl/supervise/memory_limit.h"

#include "support/sample_root.h"

static void nothing_readable_is_zero(void **state AS_UNUSED)
{
    assert_int_equal(as_memory_limit(root), 0);
    assert_int_equal(as_memory_limit_oom_kills(root), 0);
}

static void without_a_group_it_is_the_machine(void **state AS_UNUSED)
{
    write_sample("/proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n");
    write_sample("/proc/vmstat", "nr_free_pages 3\noom_kill 4\n");
    assert_int_equal(as_memory_limit(root), 2048 * 1024);
    assert_int_equal(as_memory_limit_oom_kills(root), 4);
}

static void version_two_takes_the_smallest_limit_on_the_way_up(void **state AS_UNUSED)
{
    write_sample("/proc/meminfo", "MemTotal: 8192 kB\n");
    write_sample("/proc/vmstat", "oom_kill 9\n");
    write_sample("/proc/self/cgroup", "0::/a/b\n");
    write_sample("/sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(as_memory_limit(root), 8192 * 1024);
    write_sample("/sys/fs/cgroup/a/memory.max", "1000000\n");
    assert_int_equal(as_memory_limit(root), 1000000);
    write_sample("/sys/fs/cgroup/a/b/memory.max", "500000\n");
    assert_int_equal(as_memory_limit(root), 500000);
    write_sample("/sys/fs/cgroup/a/b/memory.events", "low 0\noom 5\noom_kill 2\n");
    assert_int_equal(as_memory_limit_oom_kills(root), 2);
}

static void version_one_wins_where_it_has_the_controller(void **state AS_UNUSED)
{
    write_sample("/proc/meminfo", "MemTotal: 8192 kB\n");
    write_sample("/proc/self/cgroup", "5:cpu:/x\n4:memory:/m\n0::/\n");
    write_sample("/sys/fs/cgroup/memory.max", "77\n"); /* of a v2 group, which does not count */
    write_sample("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "3000000\n");
    write_sample("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_sample("/sys/fs/cgroup/memory/m/memory.oom_control",
                 "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    assert_int_equal(as_memory_limit(root), 3000000);
    assert_int_equal(as_memory_limit_oom_kills(root), 3);
}

/* A container sees its own group as the root of the mount, under a path that it does not see. */
static void a_hidden_path_falls_back_to_the_mount(void **state AS_UNUSED)
{
    write_sample("/proc/self/cgroup", "4:memory:/docker/0123\n");
    write_sample("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
    assert_int_equal(as_memory_limit(root), 4096);
}

static void another_process_has_its_own_group(void **state AS_UNUSED)
{
    write_sample("/proc/meminfo", "MemTotal:        2048 kB\n");
    write_sample("/proc/self/cgroup", "0::/mine\n");
    write_sample("/proc/77/cgroup", "0::/its\n");
    write_sample("/sys/fs/cgroup/mine/memory.max", "4096\n");
    write_sample("/sys/fs/cgroup/its/memory.max", "8192\n");
    assert_int_equal(as_memory_limit(root), 4096);
    assert_int_equal(as_memory_limit_of(root, 77), 8192);
    assert_int_equal(as_memory_limit_of(root, 78), 2048 * 1024); /* there is none: the machine's */
}

static void invalid_files_are_ignored(void **state AS_UNUSED)
{
    write_sample("/proc/meminfo", "MemTotal: lots\n");
    write_sample("/proc/self/cgroup", "rubbish\n:\n0::/a\n");
    write_sample("/sys/fs/cgroup/a/memory.max", "99999999999999999999999999\n");
    assert_int_equal(as_memory_limit(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_readable_is_zero, make_root, remove_root),
        cmocka_unit_test_setup_teardown(without_a_group_it_is_the_machine, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_two_takes_the_smallest_limit_on_the_way_up,
                                        make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_one_wins_where_it_has_the_controller, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(a_hidden_path_falls_back_to_the_mount, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(another_process_has_its_own_group, make_root, remove_root),
        cmocka_unit_test_setup_teardown(invalid_files_are_ignored, make_root, remove_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
