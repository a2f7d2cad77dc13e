/* A folder of sample files that stands for / in a test of a module that reads /proc and /sys: setup
 * and teardown of one test, and a writer. */
#ifndef AS_TESTS_SAMPLE_ROOT_H
#define AS_TESTS_SAMPLE_ROOT_H

#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64]; /* the path of the folder */

static int make_root(void **state AS_UNUSED)
{
    snprintf(root, sizeof(root), "/tmp/as_sample_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st AS_UNUSED, int kind AS_UNUSED,
                      struct FTW *ftw AS_UNUSED)
{
    return remove(path);
}

static int remove_root(void **state AS_UNUSED)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* name: "/proc/self/cgroup"; its folders are made. */
static void write_sample(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#endif
