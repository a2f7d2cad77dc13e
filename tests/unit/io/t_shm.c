/* Specification of io/shm: regions of shared memory, their bounds, and objects that change. */
#include "io/shm.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SIZE 4096u
#define US   geteuid()

static char key[64];
static int object = -1;
static struct as_shm *table;
static char why[512];

static int set_up(void **state AS_UNUSED)
{
    const struct as_shm_conf conf = {.max_regions = 3, .max_bytes = 2 * SIZE, .prefix = "as_"};
    uint8_t byte;

    snprintf(key, sizeof(key), "/as_t_shm_%d", (int)getpid());
    object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(object >= 0);
    assert_int_equal(ftruncate(object, SIZE), 0);
    for (uint32_t i = 0; i < SIZE; i++) {
        byte = (uint8_t)(i * 7);
        assert_int_equal(pwrite(object, &byte, 1, i), 1);
    }
    return as_shm_new(&table, &conf);
}

static int tear_down(void **state AS_UNUSED)
{
    as_shm_free(table);
    close(object);
    return shm_unlink(key);
}

static int add(const char *name, uint64_t offset, uint64_t size)
{
    why[0] = 0;
    return as_shm_register(table, US, as_str_of(name), as_str_of(key), offset, size, why,
                           sizeof(why));
}

static void a_region_is_a_range_of_an_object(void **state AS_UNUSED)
{
    uint8_t got[16];

    assert_int_equal(add("r", 100, 50), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 3, got, 16, why, sizeof(why)), 0);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(got[i], (uint8_t)((103 + i) * 7));
    assert_int_equal(
        as_shm_write(table, US, AS_STR("r"), 48, (const uint8_t *)"ab", 2, why, sizeof(why)), 0);
    assert_int_equal(pread(object, got, 3, 148), 3);
    assert_memory_equal(got, "ab", 2);
    assert_int_equal(got[2], (uint8_t)(150 * 7)); /* no byte behind the region */
}

static void ranges_must_be_in_the_region(void **state AS_UNUSED)
{
    uint8_t got[64];

    assert_int_equal(add("r", 100, 50), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 0, got, 50, why, sizeof(why)), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 0, got, 51, why, sizeof(why)),
                     AS_EINVALID);
    assert_string_equal(
        why, "51 bytes from byte 0 on are not within shared memory region 'r', which has 50");
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 49, got, 2, why, sizeof(why)),
                     AS_EINVALID);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 50, got, 0, why, sizeof(why)), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), UINT64_MAX, got, 2, why, sizeof(why)),
                     AS_EINVALID);
    assert_int_equal(as_shm_check(table, US, AS_STR("r"), 2, UINT64_MAX, why, sizeof(why)),
                     AS_EINVALID);
    assert_int_equal(as_shm_check(table, US, AS_STR("r"), 25, 25, why, sizeof(why)), 0);
    assert_int_equal(as_shm_write(table, US, AS_STR("r"), 49, got, 2, why, sizeof(why)),
                     AS_EINVALID);
    assert_int_equal(as_shm_read(table, US, AS_STR("s"), 0, got, 1, why, sizeof(why)),
                     AS_ENOTFOUND);
    assert_string_equal(why, "there is no shared memory region 's'");
}

static void registrations_that_are_refused(void **state AS_UNUSED)
{
    static const char *const keys[] = {"", "/", ".", "/..", "a/b", "//a"};
    char name[AS_SHM_NAME_MAX + 2];

    assert_int_equal(add("r", 0, SIZE + 1), AS_EINVALID);
    assert_int_equal(add("r", 1, SIZE), AS_EINVALID);
    assert_int_equal(add("r", UINT64_MAX, 2), AS_EINVALID);
    assert_int_equal(add("r", 2, UINT64_MAX), AS_EINVALID);
    assert_int_equal(add("r", 0, 0), AS_EINVALID);
    assert_int_equal(add("", 0, 1), AS_EINVALID);
    memset(name, 'n', sizeof(name));
    name[AS_SHM_NAME_MAX + 1] = 0;
    assert_int_equal(add(name, 0, 1), AS_EINVALID);
    name[AS_SHM_NAME_MAX] = 0;
    assert_int_equal(add(name, 0, 1), 0);
    assert_int_equal(add(name, 0, 1), AS_EEXISTS);
    for (size_t i = 0; i < AS_COUNT(keys); i++)
        assert_int_equal(
            as_shm_register(table, US, AS_STR("k"), as_str_of(keys[i]), 0, 1, why, sizeof(why)),
            AS_EINVALID);
    assert_int_equal(as_shm_register(table, US, AS_STR("k"), AS_STR("/as_t_shm_nothing"), 0, 1, why,
                                     sizeof(why)),
                     AS_ENOTFOUND);
    assert_int_equal(as_shm_unregister(table, US, (struct as_str){0}), 1);
}

static void limits_hold(void **state AS_UNUSED)
{
    assert_int_equal(add("a", 0, SIZE), 0);
    assert_int_equal(add("b", 0, SIZE), 0); /* the same bytes may be registered twice */
    assert_int_equal(add("c", 0, 1), AS_EFULL);
    assert_non_null(strstr(why, "--max-shm-bytes"));
    assert_int_equal(as_shm_unregister(table, US, AS_STR("b")), 1);
    assert_int_equal(add("b", 0, 1), 0);
    assert_int_equal(add("c", 0, 1), 0);
    assert_int_equal(add("d", 0, 1), AS_EFULL);
    assert_non_null(strstr(why, "--max-shm-regions"));
    assert_int_equal(as_shm_unregister(table, US, AS_STR("x")), 0);
    assert_int_equal(as_shm_unregister(table, US, (struct as_str){0}), 3);
}

static void an_object_that_shrinks_is_an_error(void **state AS_UNUSED)
{
    uint8_t got[64] = {0};

    assert_int_equal(add("r", 0, SIZE), 0);
    assert_int_equal(ftruncate(object, 32), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 0, got, 32, why, sizeof(why)), 0);
    assert_int_equal(as_shm_read(table, US, AS_STR("r"), 0, got, 33, why, sizeof(why)),
                     AS_EINVALID);
    assert_string_equal(why, "shared memory region 'r' has become smaller since it was registered");
    assert_int_equal(as_shm_write(table, US, AS_STR("r"), 0, got, 33, why, sizeof(why)),
                     AS_EINVALID);
    assert_int_equal(lseek(object, 0, SEEK_END), 32); /* the write did not enlarge it */
}

static void an_object_without_its_name_stays(void **state AS_UNUSED)
{
    char other[80];
    uint8_t got;
    int fd;

    snprintf(other, sizeof(other), "%s_other", key);
    fd = shm_open(other, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(ftruncate(fd, 1), 0);
    assert_int_equal(
        as_shm_register(table, US, AS_STR("o"), as_str_of(other), 0, 1, why, sizeof(why)), 0);
    close(fd);
    shm_unlink(other);
    assert_int_equal(as_shm_read(table, US, AS_STR("o"), 0, &got, 1, why, sizeof(why)), 0);
}

/* Only a user who could certainly open the object may register it. */
static void objects_of_users(void **state AS_UNUSED)
{
    static const struct {
        mode_t mode;
        bool owner, others;
    } rows[] = {{0600, true, false}, {0660, true, false}, {0606, true, false}, {0666, true, true},
                {0646, true, false}, {0664, true, false}, {0777, true, true}};
    uid_t other = US + 1;

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(fchmod(object, rows[i].mode), 0);
        assert_int_equal(add("r", 0, 1), rows[i].owner ? 0 : AS_EDENIED);
        assert_int_equal(
            as_shm_register(table, other, AS_STR("r"), as_str_of(key), 0, 1, why, sizeof(why)),
            rows[i].others ? 0 : AS_EDENIED);
        as_shm_unregister(table, US, (struct as_str){0});
        as_shm_unregister(table, other, (struct as_str){0});
    }
    fchmod(object, 0600);
    as_shm_register(table, other, AS_STR("r"), as_str_of(key), 0, 1, why, sizeof(why));
    assert_non_null(strstr(why, "may not read and write"));
    assert_non_null(strstr(why, "mode 0600"));
    assert_int_equal(as_shm_register(table, 0, AS_STR("r"), as_str_of(key), 0, 1, why, sizeof(why)),
                     0);
}

/* An acl(5) as the kernel stores it: version 2, then tag, permissions and user of each entry. */
static const uint8_t one_user_more[] = {
    2,    0, 0, 0,                         /* */
    1,    0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* owner: read and write */
    2,    0, 0, 0, 0x39, 0x30, 0,    0,    /* user 12345: nothing */
    4,    0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* group */
    0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* mask */
    0x20, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* others */
};

/* The mode permits all users, but the list denies one. */
static void objects_with_a_list_of_users(void **state AS_UNUSED)
{
    assert_int_equal(fchmod(object, 0666), 0);
    if (fsetxattr(object, "system.posix_acl_access", one_user_more, sizeof(one_user_more), 0)) {
        print_message("/dev/shm has no access control lists: %s\n", strerror(errno));
        assert_int_equal(errno, EOPNOTSUPP);
        skip();
    }
    assert_int_equal(add("r", 0, 1), 0);
    assert_int_equal(
        as_shm_register(table, 12345, AS_STR("r"), as_str_of(key), 0, 1, why, sizeof(why)),
        US == 12345 ? AS_EEXISTS : AS_EDENIED);
}

/* Each user has its own names; the limits are for all users together. */
static void a_region_belongs_to_its_user(void **state AS_UNUSED)
{
    uid_t other = US + 1;
    uint8_t got;

    assert_int_equal(fchmod(object, 0666), 0);
    assert_int_equal(add("r", 0, 2), 0);
    assert_int_equal(as_shm_read(table, other, AS_STR("r"), 0, &got, 1, why, sizeof(why)),
                     AS_ENOTFOUND);
    assert_int_equal(as_shm_write(table, other, AS_STR("r"), 0, &got, 1, why, sizeof(why)),
                     AS_ENOTFOUND);
    assert_int_equal(as_shm_check(table, other, AS_STR("r"), 0, 1, why, sizeof(why)), AS_ENOTFOUND);
    assert_int_equal(as_shm_unregister(table, other, AS_STR("r")), 0);
    assert_int_equal(as_shm_unregister(table, other, (struct as_str){0}), 0);
    assert_int_equal(
        as_shm_register(table, other, AS_STR("r"), as_str_of(key), 1, 1, why, sizeof(why)), 0);
    assert_int_equal(as_shm_check(table, US, AS_STR("r"), 0, 2, why, sizeof(why)), 0);
    assert_int_equal(as_shm_check(table, other, AS_STR("r"), 0, 2, why, sizeof(why)), AS_EINVALID);
    assert_int_equal(as_shm_read(table, other, AS_STR("r"), 0, &got, 1, why, sizeof(why)), 0);
    assert_int_equal(got, 7);
    assert_int_equal(
        as_shm_register(table, other, AS_STR("s"), as_str_of(key), 0, 1, why, sizeof(why)), 0);
    assert_int_equal(add("t", 0, 1), AS_EFULL);
    assert_int_equal(as_shm_unregister(table, other, (struct as_str){0}), 2);
    assert_int_equal(add("t", 0, 1), 0);
}

static void names_of_objects(void **state AS_UNUSED)
{
    static const char *const keys[] = {"/anyserve.x", "anyserve.x", "/a", "as", "/psm_x", "sem.x"};
    char other[80];

    for (size_t i = 0; i < AS_COUNT(keys); i++) {
        assert_int_equal(
            as_shm_register(table, US, AS_STR("k"), as_str_of(keys[i]), 0, 1, why, sizeof(why)),
            AS_EDENIED);
        assert_non_null(strstr(why, i < 2 ? "the server's own" : "--client-shm-prefix"));
    }
    snprintf(other, sizeof(other), "%s", key + 1); /* the name with and without a slash */
    assert_int_equal(
        as_shm_register(table, US, AS_STR("k"), as_str_of(other), 0, 1, why, sizeof(why)), 0);
}

struct seen {
    uint32_t n;
    uint64_t bytes;
};

static void see(void *arg, struct as_str name AS_UNUSED, struct as_str k, uint64_t offset,
                uint64_t size)
{
    struct seen *s = arg;

    assert_true(as_str_eq(k, as_str_of(key)) && offset == 1);
    s->n++;
    s->bytes += size;
}

static void regions_are_shown(void **state AS_UNUSED)
{
    struct seen s = {0};

    add("a", 1, 10);
    add("b", 1, 20);
    assert_int_equal(as_shm_each(table, US, (struct as_str){0}, see, &s), 2);
    assert_true(s.n == 2 && s.bytes == 30);
    assert_int_equal(as_shm_each(table, US, AS_STR("b"), see, &s), 1);
    assert_int_equal(s.bytes, 50);
    assert_int_equal(as_shm_each(table, US, AS_STR("c"), see, &s), 0);
}

/* One thread unregisters regions while another uses them: each use succeeds or is refused. */
static void *use(void *arg AS_UNUSED)
{
    static uint8_t got[SIZE];
    char text[512];

    for (int i = 0; i < 2000; i++) {
        int err = as_shm_read(table, US, AS_STR("r"), 0, got, SIZE, text, sizeof(text));

        assert_true(err == 0 || err == AS_ENOTFOUND);
    }
    return NULL;
}

static void unregistered_while_in_use(void **state AS_UNUSED)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, use, NULL), 0);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(add("r", 0, SIZE), 0);
        assert_int_equal(as_shm_unregister(table, US, AS_STR("r")), 1);
    }
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_region_is_a_range_of_an_object, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_must_be_in_the_region, set_up, tear_down),
        cmocka_unit_test_setup_teardown(registrations_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_object_that_shrinks_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_object_without_its_name_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(objects_of_users, set_up, tear_down),
        cmocka_unit_test_setup_teardown(objects_with_a_list_of_users, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_region_belongs_to_its_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_objects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unregistered_while_in_use, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
