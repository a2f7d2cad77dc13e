#include "ctl/message/replica_context.h"

#include "base/id.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define NAME_LONG 200u /* bytes of an id; a longer one is cut and gets a hash, as a file's name */

static char *context_path(const char *folder, const char *replica)
{
    struct as_str shown = as_id_shown(as_str_of(replica));

    if (shown.n <= NAME_LONG)
        return as_str_format("%s/" AS_REPLICA_CONTEXT_PREFIX "%s", folder, shown.p);
    return as_str_format("%s/" AS_REPLICA_CONTEXT_PREFIX "%.*s~%016lx", folder, (int)NAME_LONG,
                         shown.p, (unsigned long)as_str_hash(shown));
}

/* A new file each time: a former process may have the old one open. */
static int write_file(const char *path, struct as_str json)
{
    int fd, e;
    bool ok;

    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return AS_EIO;
    errno = ENOSPC; /* reported for a short write */
    ok = write(fd, json.p, json.n) == (ssize_t)json.n;
    e = errno;
    close(fd);
    if (!ok)
        unlink(path);
    errno = e;
    return ok ? 0 : AS_EIO;
}

int as_replica_context_env(const char *folder, const char *replica, struct as_str json,
                           struct as_buf *out)
{
    char *path;
    int rc;

    if (json.n <= AS_REPLICA_CONTEXT_INLINE) {
        as_buf_printf(out, "ANYSERVE_CONTEXT=%.*s", AS_STR_FMT(json));
        return 0;
    }
    path = context_path(folder, replica);
    rc = write_file(path, json);
    if (rc == 0)
        as_buf_printf(out, "ANYSERVE_CONTEXT_FILE=%s", path);
    free(path);
    return rc;
}

int as_replica_context_json(const char *folder, const char *replica, struct as_str json,
                            struct as_buf *out)
{
    char *path;
    int rc;

    if (json.n <= AS_REPLICA_CONTEXT_INLINE) {
        as_buf_add(out, json.p, json.n);
        return 0;
    }
    path = context_path(folder, replica);
    rc = write_file(path, json);
    if (rc == 0) {
        as_buf_str(out, "{\"context_file\": ");
        as_buf_json(out, as_str_of(path));
        as_buf_str(out, "}");
    }
    free(path);
    return rc;
}

void as_replica_context_remove(const char *folder, const char *replica)
{
    char *path = context_path(folder, replica);

    unlink(path);
    free(path);
}
