#include "ctl/state/code_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGEST "sha256:"
/* Depth of folders that are removed: more than a path can have. */
#define DEPTH_MAX 4096u
/* Discarded copies of one name: code that is changed back and forth adds one each time. */
#define DISCARDED_MAX 100000u

bool as_code_store_is_copy(const char *code)
{
    return code && strncmp(code, DIGEST, sizeof(DIGEST) - 1) == 0 &&
           strlen(code) >= sizeof(DIGEST) - 1 + AS_CODE_STORE_HEX;
}

static const char *hex_of(const char *code)
{
    AS_ASSERT(as_code_store_is_copy(code));
    return code + sizeof(DIGEST) - 1;
}

void as_code_store_path(const char *store, const char *code, struct as_buf *path)
{
    as_buf_printf(path, "%s/%.*s", store, (int)AS_CODE_STORE_HEX, hex_of(code));
    as_buf_add(path, "", 1);
}

void as_code_store_target(const char *code, const char *target, struct as_buf *text)
{
    const char *file = hex_of(code) + AS_CODE_STORE_HEX, *colon = strrchr(target, ':');

    as_buf_str(text, *file == '/' ? file + 1 : target);
    if (*file == '/' && colon)
        as_buf_str(text, colon);
    as_buf_add(text, "", 1);
}

void as_code_store_source(const char *cwd, const char *dir, const char *code, const char *target,
                          struct as_buf *text)
{
    const char *colon = strrchr(target, ':');
    bool is_file = hex_of(code)[AS_CODE_STORE_HEX] == '/';

    as_buf_str(text, "--source=");
    if (is_file && target[0] == '/')
        dir = cwd = "";
    else if (dir && dir[0] == '/')
        cwd = "";
    as_buf_printf(text, "%s%s%s", cwd, cwd[0] && dir ? "/" : "", dir ? dir : "");
    if (is_file)
        as_buf_printf(text, "%s%.*s", cwd[0] || (dir && dir[0]) ? "/" : "",
                      (int)(colon ? (size_t)(colon - target) : strlen(target)), target);
    as_buf_add(text, "", 1);
}

int as_code_store_check(const char *store, const char *code, struct as_buf *err)
{
    struct as_buf path = {0};
    struct stat st;
    int rc = 0;

    as_code_store_path(store, code, &path);
    if (stat((const char *)path.p, &st) < 0 || !S_ISDIR(st.st_mode)) {
        as_buf_printf(err, "the copy of its code is missing: %s; deploy its files again",
                      (const char *)path.p);
        rc = AS_ENOTFOUND;
    }
    as_buf_fini(&path);
    return rc;
}

/* --- names --- */

static bool has_name(const struct as_code_store_names *names, const char *hex)
{
    for (uint32_t i = 0; i < names->n; i++) {
        if (memcmp(names->all[i], hex, AS_CODE_STORE_HEX) == 0)
            return true;
    }
    return false;
}

void as_code_store_names_add(struct as_code_store_names *names, const char *code)
{
    if (!as_code_store_is_copy(code) || has_name(names, hex_of(code)))
        return;
    names->all = as_xrealloc(names->all, (names->n + 1) * sizeof(*names->all));
    memcpy(names->all[names->n], hex_of(code), AS_CODE_STORE_HEX);
    names->all[names->n++][AS_CODE_STORE_HEX] = 0;
}

void as_code_store_names_fini(struct as_code_store_names *names)
{
    free(names->all);
    *names = (struct as_code_store_names){0};
}

/* --- removal --- */

static int write_error(const char *what, const char *name, struct as_buf *err)
{
    if (!err->n) /* the first error is reported */
        as_buf_printf(err, "cannot %s %s: %s", what, name, strerror(errno));
    return AS_EIO;
}

static DIR *open_in(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !d)
        close(fd);
    return d;
}

/* The code may have made folders there without write permission. */
static DIR *open_for_removal(int folder, const char *name)
{
    DIR *d = open_in(folder, name);

    if (!d && errno == EACCES && fchmodat(folder, name, 0700, 0) == 0)
        d = open_in(folder, name);
    if (d)
        fchmod(dirfd(d), 0700);
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes a file, or a folder with everything in it. No link is followed. */
static int remove_tree(int folder, const char *name, uint32_t depth, struct as_buf *err)
{
    struct dirent *e;
    int rc = 0;
    DIR *d;

    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return write_error("remove", name, err);
    d = depth < DEPTH_MAX ? open_for_removal(folder, name) : NULL;
    if (!d)
        return write_error("open", name, err);
    while ((e = readdir(d))) {
        if (!is_dots(e->d_name) && remove_tree(dirfd(d), e->d_name, depth + 1, err) < 0)
            rc = AS_EIO;
    }
    closedir(d);
    return rc == 0 && unlinkat(folder, name, AT_REMOVEDIR) < 0 ? write_error("remove", name, err)
                                                               : rc;
}

static bool is_copy_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == AS_CODE_STORE_HEX && !name[AS_CODE_STORE_HEX];
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* A discarded copy of the same name may be there already. */
static int discard_entry(int folder, const char *name, struct as_buf *err)
{
    char old[NAME_MAX + 1];

    for (uint32_t i = 0; i < DISCARDED_MAX; i++) {
        snprintf(old, sizeof(old), AS_CODE_STORE_DISCARDED "%.200s-%u", name, i);
        if (renameat2(folder, name, folder, old, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return write_error("rename", name, err);
}

int as_code_store_discard(const char *store, const struct as_code_store_names *keep,
                          struct as_buf *err)
{
    DIR *d = open_in(AT_FDCWD, store);
    struct dirent *e;
    int n = 0, rc = 0;

    if (!d)
        return errno == ENOENT ? 0 : write_error("open", store, err);
    while ((e = readdir(d))) {
        if (!has_prefix(e->d_name, AS_CODE_STORE_TEMPORARY) &&
            (!is_copy_name(e->d_name) || has_name(keep, e->d_name)))
            continue;
        n++;
        if (discard_entry(dirfd(d), e->d_name, err) < 0)
            rc = AS_EIO;
    }
    closedir(d);
    return rc < 0 ? rc : n;
}

int as_code_store_remove_discarded(const char *store, struct as_buf *err)
{
    DIR *d = open_in(AT_FDCWD, store);
    struct dirent *e;
    int n = 0, rc = 0;

    if (!d)
        return errno == ENOENT ? 0 : write_error("open", store, err);
    while ((e = readdir(d))) {
        if (!has_prefix(e->d_name, AS_CODE_STORE_DISCARDED))
            continue;
        n++;
        if (remove_tree(dirfd(d), e->d_name, 0, err) < 0)
            rc = AS_EIO;
    }
    closedir(d);
    return rc < 0 ? rc : n;
}

void as_code_store_clear(const char *store)
{
    struct as_buf none = {0};

    remove_tree(AT_FDCWD, store, 0, &none);
    as_buf_fini(&none);
}
