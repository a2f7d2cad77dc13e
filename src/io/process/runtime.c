#include "io/process/runtime.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *as_runtime_xdg_folder(const char *option, const char *variable, const char *for_root,
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
        option = geteuid() == 0 ? for_root : otherwise;
    return option ? as_str_dup(as_str_of(option)) : NULL;
}

#define SYSTEM_DIR "/run/anyserve" /* of root, and of system services */
#define LOGIN_DIRS "/run/user"     /* has the folder of each login, $XDG_RUNTIME_DIR */
#define TMP_PREFIX "/tmp/anyserve-"

char *as_runtime_base(const char *option)
{
    char ours[64];

    snprintf(ours, sizeof(ours), TMP_PREFIX "%u", (unsigned)geteuid());
    return as_runtime_xdg_folder(option, "XDG_RUNTIME_DIR", SYSTEM_DIR, ours);
}

/* The folder of this user's servers in the background. NULL: the user has no home. */
static char *state_base(void)
{
    const char *home = getenv("HOME"), *xdg = getenv("XDG_STATE_HOME");
    struct as_buf b;
    char *path;

    if (geteuid() == 0)
        return as_str_dup(AS_STR(SYSTEM_DIR));
    if ((!xdg || xdg[0] != '/') && (!home || home[0] != '/'))
        return NULL;
    as_buf_init(&b);
    if (xdg && xdg[0] == '/')
        as_buf_printf(&b, "%s/anyserve/run", xdg);
    else
        as_buf_printf(&b, "%s/.local/state/anyserve/run", home);
    path = as_str_dup(as_buf_slice(&b));
    as_buf_fini(&b);
    return path;
}

/* Is the folder made by a login, and removed when the user logs out? */
static bool is_of_login(const char *path)
{
    return strncmp(path, LOGIN_DIRS "/", strlen(LOGIN_DIRS "/")) == 0;
}

char *as_runtime_persistent_base(const char *option)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    char *other;

    /* a folder that a service manager or the user has chosen stays as long as they want */
    if (option[0] || (xdg && xdg[0] == '/' && !is_of_login(xdg)))
        return as_runtime_base(option);
    other = state_base();
    return other ? other : as_runtime_base(option);
}

int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name)
{
    int n = snprintf(ret_path, AS_RUNTIME_PATH_MAX, "%s/%u/%s", base, port, name);

    return n < 0 || n >= (int)AS_RUNTIME_PATH_MAX ? AS_EINVALID : 0;
}

int as_runtime_read_token(const char *base, uint16_t port, char ret_token[AS_RUNTIME_TOKEN_LEN + 1])
{
    return as_runtime_read_token_of(base, port, AS_RUNTIME_TOKEN, ret_token);
}

int as_runtime_read_token_of(const char *base, uint16_t port, const char *name,
                             char ret_token[AS_RUNTIME_TOKEN_LEN + 1])
{
    char path[AS_RUNTIME_PATH_MAX], token[AS_RUNTIME_TOKEN_LEN + 1];
    ssize_t n;
    int fd;

    if (as_runtime_path(path, base, port, name) < 0)
        return AS_EINVALID;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return AS_ENOTFOUND;
    /* reads up to one byte more than a token has, to reject a longer file */
    n = read(fd, token, sizeof(token));
    close(fd);
    if (n != AS_RUNTIME_TOKEN_LEN)
        return AS_EPROTO;
    memcpy(ret_token, token, AS_RUNTIME_TOKEN_LEN);
    ret_token[AS_RUNTIME_TOKEN_LEN] = 0;
    return 0;
}

static bool is_locked(const char *base, const char *port)
{
    char path[4096];
    bool held;
    int fd;

    snprintf(path, sizeof(path), "%s/%s/" AS_RUNTIME_LOCK, base, port);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    /* Shared, so that two commands that check at once do not see each other. */
    held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

bool as_runtime_is_running(const char *base, uint16_t port)
{
    char name[8];

    snprintf(name, sizeof(name), "%u", port);
    return is_locked(base, name);
}

int as_runtime_supervisor_pid(const char *base, uint16_t port)
{
    char path[AS_RUNTIME_PATH_MAX], text[16];
    uint64_t pid;
    ssize_t n;
    int fd;

    if (as_runtime_path(path, base, port, AS_RUNTIME_LOCK) < 0)
        return 0;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    if (n < 1 || text[n - 1] != '\n' || as_str_u64((struct as_str){text, (size_t)n - 1}, &pid) ||
        pid > INT32_MAX)
        return 0;
    return (int)pid;
}

/* --- where servers are --- */

/* Is it a folder that only `owner` or root can write to? */
static bool is_owned(const char *path, uid_t owner)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && !(st.st_mode & 022) &&
           (st.st_uid == owner || st.st_uid == 0);
}

/* Takes ownership of `path`, which may be NULL. */
static void add_base(struct as_runtime_search *f, char *path)
{
    for (uint32_t i = 0; path && i < f->n_bases; i++) {
        if (strcmp(f->bases[i], path) == 0) {
            free(path);
            path = NULL;
        }
    }
    if (path && f->n_bases < AS_RUNTIME_BASES)
        f->bases[f->n_bases++] = path;
    else
        free(path);
}

static int by_port(const void *a, const void *b)
{
    const struct as_runtime_server *x = a, *y = b;

    return x->port < y->port ? -1 : x->port > y->port;
}

static void add_servers(struct as_runtime_search *f, const char *base)
{
    struct as_runtime_server *first = f->servers + f->n;
    DIR *dir = opendir(base);
    struct dirent *e;
    uint64_t port;

    while (dir && f->n < AS_RUNTIME_SERVERS && (e = readdir(dir))) {
        /* a folder whose lock is free was left by a server that was killed */
        if (as_str_u64(as_str_of(e->d_name), &port) == 0 && port <= UINT16_MAX &&
            is_locked(base, e->d_name))
            f->servers[f->n++] = (struct as_runtime_server){base, (uint16_t)port};
    }
    if (dir)
        closedir(dir);
    qsort(first, (size_t)(f->servers + f->n - first), sizeof(*first), by_port);
}

/* Adds the folders DIR/PREFIX<uid>SUFFIX that belong to the user <uid>. */
static void add_user_bases(struct as_runtime_search *f, const char *dir_path, const char *prefix,
                           const char *suffix)
{
    DIR *dir = opendir(dir_path);
    struct dirent *e;
    uint64_t uid;

    while (dir && (e = readdir(dir))) {
        char path[AS_RUNTIME_PATH_MAX];

        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
            as_str_u64(as_str_of(e->d_name + strlen(prefix)), &uid) || uid > UINT32_MAX ||
            snprintf(path, sizeof(path), "%s/%.64s%s", dir_path, e->d_name, suffix) >=
                (int)sizeof(path) ||
            !is_owned(path, (uid_t)uid))
            continue;
        add_base(f, as_str_dup(as_str_of(path)));
    }
    if (dir)
        closedir(dir);
}

static void search_own_folders(struct as_runtime_search *f)
{
    add_base(f, as_runtime_base(""));
    add_base(f, state_base());
    add_base(f, as_str_dup(AS_STR(SYSTEM_DIR)));
    for (uint32_t i = 0; i < f->n_bases; i++) {
        /* the folder of a service belongs to the service's user, whoever that is */
        struct stat st;
        bool any =
            geteuid() == 0 && strcmp(f->bases[i], SYSTEM_DIR) == 0 && lstat(f->bases[i], &st) == 0;

        if (is_owned(f->bases[i], any ? st.st_uid : geteuid()))
            add_servers(f, f->bases[i]);
    }
}

static void search_user_folders(struct as_runtime_search *f)
{
    uint32_t from = f->n_bases;

    add_user_bases(f, LOGIN_DIRS, "", "/anyserve");
    add_user_bases(f, "/tmp", "anyserve-", "");
    for (uint32_t i = from; i < f->n_bases; i++)
        add_servers(f, f->bases[i]);
}

static bool has_port(const struct as_runtime_search *f, uint16_t port)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->servers[i].port == port)
            return true;
    }
    return false;
}

bool as_runtime_matches(const struct as_runtime_server *s, bool given, uint16_t port)
{
    return !given || s->port == port;
}

void as_runtime_find(struct as_runtime_search *f, const char *option, bool given, uint16_t port)
{
    struct as_runtime_server match = {0};

    memset(f, 0, sizeof(*f));
    if (option[0]) {
        add_base(f, as_str_dup(as_str_of(option)));
        add_servers(f, f->bases[0]);
    } else {
        search_own_folders(f);
        if (geteuid() == 0 && (given ? !has_port(f, port) : !f->n))
            search_user_folders(f);
    }
    f->chosen = (struct as_runtime_server){f->bases[0], port};
    for (uint32_t i = 0; i < f->n; i++) {
        if (!as_runtime_matches(&f->servers[i], given, port))
            continue;
        if (f->n_matching++ == 0)
            match = f->servers[i];
    }
    f->chosen_runs = f->n_matching == 1;
    if (f->chosen_runs)
        f->chosen = match;
}

void as_runtime_search_fini(struct as_runtime_search *f)
{
    while (f->n_bases)
        free(f->bases[--f->n_bases]);
}

void as_runtime_put_servers(const struct as_runtime_search *f, struct as_buf *out)
{
    const char *before = NULL;

    for (uint32_t i = 0; i < f->n; i++) {
        const struct as_runtime_server *s = &f->servers[i];

        if (s->base != before)
            as_buf_printf(out, "\n  Running in %s; choose one with --port:", s->base);
        as_buf_printf(out, " %u", s->port);
        before = s->base;
    }
}
