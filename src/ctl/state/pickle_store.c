#include "ctl/state/pickle_store.h"

#include "ctl/state/state_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX    "pickle:"
#define TEMPORARY ".tmp-" /* prefix of a file that is not complete */
#define PART      (1u << 20)

bool as_pickle_store_is_pickle(const char *code)
{
    return code && strncmp(code, PREFIX, sizeof(PREFIX) - 1) == 0 &&
           as_sha256_is_hex(as_str_of(code + sizeof(PREFIX) - 1));
}

struct as_str as_pickle_store_name(const char *code)
{
    AS_ASSERT(as_pickle_store_is_pickle(code));
    return as_str_of(code + sizeof(PREFIX) - 1);
}

/* The folder, beside that of the copies. */
static void put_folder(const char *copies, struct as_buf *path)
{
    const char *slash = strrchr(copies, '/');

    AS_ASSERT(slash);
    as_buf_add(path, copies, (size_t)(slash - copies) + 1);
    as_buf_str(path, AS_PICKLE_STORE_FOLDER);
}

static char *folder_of(const char *copies)
{
    struct as_buf path = {0};
    char *folder;

    put_folder(copies, &path);
    folder = as_str_dup(as_buf_slice(&path));
    as_buf_fini(&path);
    return folder;
}

void as_pickle_store_path(const char *copies, struct as_str hex, struct as_buf *path)
{
    put_folder(copies, path);
    as_buf_printf(path, "/%.*s", AS_STR_FMT(hex));
    as_buf_add(path, "", 1);
}

void as_pickle_store_target(const char *copies, const char *code, struct as_buf *text)
{
    as_buf_str(text, PREFIX);
    as_pickle_store_path(copies, as_pickle_store_name(code), text);
}

int as_pickle_store_check(const char *copies, const char *code, struct as_buf *err)
{
    struct as_buf path = {0};
    struct stat st;
    int rc = 0;

    as_pickle_store_path(copies, as_pickle_store_name(code), &path);
    if (stat((const char *)path.p, &st) < 0 || !S_ISREG(st.st_mode)) {
        as_buf_printf(err, "its pickled code is missing: %s; run the program that deploys it again",
                      (const char *)path.p);
        rc = AS_ENOTFOUND;
    }
    as_buf_fini(&path);
    return rc;
}

/* --- storing --- */

static int system_error(const char *what, const char *name, struct as_buf *err)
{
    as_buf_printf(err, "cannot %s %s: %s", what, name, strerror(errno));
    return AS_EIO;
}

static bool write_all(int fd, struct as_str s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, AS_MIN(s.n, (size_t)PART));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        s.p += n;
        s.n -= (size_t)n;
    }
    return fsync(fd) == 0;
}

static bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Under a temporary name, then renamed: a pickle that is found is whole. */
static int write_file(const char *folder, const char *path, struct as_str content,
                      struct as_buf *err)
{
    char *temporary = as_str_format("%s/" TEMPORARY "XXXXXX", folder);
    int fd = mkostemp(temporary, O_CLOEXEC), rc = 0; /* mode 0600 */

    if (fd < 0) {
        rc = system_error("make a file in", folder, err);
    } else {
        bool ok = write_all(fd, content);

        close(fd);
        if (!ok || rename(temporary, path) < 0 || !sync_folder(folder)) {
            rc = system_error("write", path, err);
            unlink(temporary);
        }
    }
    free(temporary);
    return rc;
}

int as_pickle_store_put(const char *copies, struct as_str hex, struct as_str content,
                        struct as_buf *err)
{
    char is[AS_SHA256_HEX + 1], *folder;
    struct as_buf path = {0};
    struct stat st;
    int rc;

    if (!as_sha256_is_hex(hex)) {
        as_buf_str(err, "the name of pickled code is its SHA-256, 64 lower-case hex digits");
        return AS_EINVALID;
    }
    as_sha256_hex(content, is);
    if (!as_str_eq(hex, as_str_of(is))) {
        as_buf_printf(err, "the SHA-256 of the %zu bytes is %s, not %.*s", content.n, is,
                      AS_STR_FMT(hex));
        return AS_EINVALID;
    }
    folder = folder_of(copies);
    as_pickle_store_path(copies, hex, &path);
    rc = as_state_dir_make(folder, err);
    if (rc == 0 && (stat((const char *)path.p, &st) < 0 || (size_t)st.st_size != content.n))
        rc = write_file(folder, (const char *)path.p, content, err);
    as_buf_fini(&path);
    free(folder);
    return rc;
}

/* --- names --- */

bool as_pickle_store_names_have(const struct as_pickle_store_names *names, struct as_str hex)
{
    for (uint32_t i = 0; i < names->n; i++) {
        if (as_str_eq(as_str_of(names->all[i]), hex))
            return true;
    }
    return false;
}

void as_pickle_store_names_add(struct as_pickle_store_names *names, struct as_str hex)
{
    AS_ASSERT(as_sha256_is_hex(hex));
    if (as_pickle_store_names_have(names, hex))
        return;
    names->all = as_xrealloc(names->all, (names->n + 1) * sizeof(*names->all));
    memcpy(names->all[names->n], hex.p, AS_SHA256_HEX);
    names->all[names->n++][AS_SHA256_HEX] = 0;
}

void as_pickle_store_names_remove(struct as_pickle_store_names *names, uint32_t i)
{
    AS_ASSERT(i < names->n);
    memmove(names->all + i, names->all + i + 1, (--names->n - i) * sizeof(*names->all));
}

void as_pickle_store_names_fini(struct as_pickle_store_names *names)
{
    free(names->all);
    *names = (struct as_pickle_store_names){0};
}

/* --- removal --- */

/* Removes the files of the store for which `is_old` is true. */
static int remove_files(const char *copies, bool (*is_old)(void *ctx, const char *name), void *ctx,
                        struct as_buf *err)
{
    char *folder = folder_of(copies);
    DIR *d = opendir(folder);
    struct dirent *e;
    int rc = d || errno == ENOENT ? 0 : system_error("open", folder, err);

    while (d && (e = readdir(d))) {
        if (is_old(ctx, e->d_name) && unlinkat(dirfd(d), e->d_name, 0) < 0 && errno != ENOENT) {
            if (rc == 0) /* the first error is reported */
                rc = system_error("remove", e->d_name, err);
        }
    }
    if (d)
        closedir(d);
    free(folder);
    return rc;
}

static bool is_not_kept(void *keep, const char *name)
{
    struct as_str s = as_str_of(name);

    return as_sha256_is_hex(s) && !as_pickle_store_names_have(keep, s);
}

int as_pickle_store_sweep(const char *copies, const struct as_pickle_store_names *keep,
                          struct as_buf *err)
{
    return remove_files(copies, is_not_kept, (void *)(uintptr_t)keep, err);
}

static bool is_temporary(void *ctx AS_UNUSED, const char *name)
{
    return strncmp(name, TEMPORARY, sizeof(TEMPORARY) - 1) == 0;
}

void as_pickle_store_clean(const char *copies)
{
    struct as_buf none = {0};

    remove_files(copies, is_temporary, NULL, &none);
    as_buf_fini(&none);
}
