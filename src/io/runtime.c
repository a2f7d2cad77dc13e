#include "io/runtime.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *as_runtime_folder(const char *option, const char *variable, const char *of_root,
                        const char *otherwise)
{
    const char *xdg = getenv(variable);
    struct as_buf b;
    char *folder;

    if (!option[0] && xdg && xdg[0] == '/') {
        as_buf_init(&b);
        as_buf_printf(&b, "%s/anyserve", xdg);
        folder = as_str_dup(as_buf_slice(&b));
        as_buf_fini(&b);
        return folder;
    }
    if (!option[0])
        option = geteuid() == 0 ? of_root : otherwise;
    return option ? as_str_dup(as_str_of(option)) : NULL;
}

/* Per user, and gone with the session. */
char *as_runtime_base(const char *option)
{
    char ours[64];

    snprintf(ours, sizeof(ours), "/tmp/anyserve-%u", (unsigned)geteuid());
    return as_runtime_folder(option, "XDG_RUNTIME_DIR", "/run/anyserve", ours);
}

int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name)
{
    int n = snprintf(ret_path, AS_RUNTIME_PATH_MAX, "%s/%u/%s", base, port, name);

    return n < 0 || n >= (int)AS_RUNTIME_PATH_MAX ? AS_EINVALID : 0;
}

int as_runtime_read_token(const char *base, uint16_t port, char ret_token[AS_RUNTIME_TOKEN_LEN + 1])
{
    char path[AS_RUNTIME_PATH_MAX], token[AS_RUNTIME_TOKEN_LEN + 1];
    ssize_t n;
    int fd;

    if (as_runtime_path(path, base, port, AS_RUNTIME_TOKEN) < 0)
        return AS_EINVALID;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return AS_ENOTFOUND;
    /* one byte more than it has would show here */
    n = read(fd, token, sizeof(token));
    close(fd);
    if (n != AS_RUNTIME_TOKEN_LEN)
        return AS_EPROTO;
    memcpy(ret_token, token, AS_RUNTIME_TOKEN_LEN);
    ret_token[AS_RUNTIME_TOKEN_LEN] = 0;
    return 0;
}

static bool locked(const char *base, const char *port)
{
    char path[4096];
    bool held;
    int fd;

    snprintf(path, sizeof(path), "%s/%s/" AS_RUNTIME_LOCK, base, port);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    /* Shared, so that two who look do not see each other; let go at once. */
    held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

bool as_runtime_lives(const char *base, uint16_t port)
{
    char name[8];

    snprintf(name, sizeof(name), "%u", port);
    return locked(base, name);
}

static int by_number(const void *a, const void *b)
{
    const uint16_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

uint32_t as_runtime_ports(const char *base, uint16_t *out, uint32_t cap)
{
    DIR *dir = opendir(base);
    struct dirent *e;
    uint32_t n = 0;

    while (dir && n < cap && (e = readdir(dir))) {
        uint64_t port;

        /* a folder without a held lock is what a killed server left */
        if (as_str_u64(as_str_of(e->d_name), &port) == 0 && port <= UINT16_MAX &&
            locked(base, e->d_name))
            out[n++] = (uint16_t)port;
    }
    if (dir)
        closedir(dir);
    qsort(out, n, sizeof(*out), by_number);
    return n;
}

uint16_t as_runtime_choose(bool given, uint16_t port, const uint16_t *ports, uint32_t n)
{
    return given || n != 1 ? port : ports[0];
}
