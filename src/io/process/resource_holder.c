#include "io/process/resource_holder.h"

#include "io/process/process_ancestry.h"
#include "io/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENERS  8u   /* sockets that listen on one port, one for each address */
#define TCP_LISTEN "0A" /* the kernel's TCP_LISTEN as /proc/net/tcp writes it, in hex */

/* The targets of links in /proc/PID/fd that are searched for. */
struct wanted {
    char link[LISTENERS][256];
    uint32_t n;
};

static ssize_t read_link(const char *path, char *out, size_t cap)
{
    ssize_t n = readlink(path, out, cap - 1);

    out[n > 0 ? n : 0] = 0;
    return n;
}

static bool is_wanted(const struct wanted *w, const char *link)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (strcmp(w->link[i], link) == 0)
            return true;
    }
    return false;
}

/* `link` is an open file of process h->pid. When it is the lock of a server that runs,
 * "RUNTIME-DIR/PORT/lock", the process is that server's supervisor: no other process keeps it open.
 */
static bool set_server_of_lock(struct as_resource_holder *h, const char *link)
{
    char base[AS_RUNTIME_PATH_MAX];
    const char *file = strrchr(link, '/');
    uint64_t port;
    char *slash;

    if (!file || strcmp(file, "/" AS_RUNTIME_LOCK) != 0 || (size_t)(file - link) >= sizeof(base))
        return false;
    snprintf(base, sizeof(base), "%.*s", (int)(file - link), link);
    slash = strrchr(base, '/');
    if (!slash || as_str_u64(as_str_of(slash + 1), &port) || port > UINT16_MAX)
        return false;
    *slash = 0;
    if (!as_runtime_is_running(base, (uint16_t)port))
        return false;
    snprintf(h->runtime_dir, sizeof(h->runtime_dir), "%s", base);
    h->port = (uint16_t)port;
    h->is_server = true;
    return true;
}

/* Reads all descriptors of the process. True: one is wanted. Also sets is_server. */
static bool scan_descriptors(struct as_resource_holder *h, const struct wanted *w)
{
    char path[64], link[512];
    bool has = false;
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)h->pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)h->pid, e->d_name);
        if (read_link(path, link, sizeof(link)) <= 0)
            continue;
        has = has || is_wanted(w, link);
        if (!h->is_server)
            set_server_of_lock(h, link);
    }
    if (dir)
        closedir(dir);
    return has;
}

static void read_details(struct as_resource_holder *h)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/cwd", (int)h->pid);
    read_link(path, h->started_in, sizeof(h->started_in));
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)h->pid);
    (void)as_proc_read_file(path, h->program, sizeof(h->program));
    h->program[strcspn(h->program, "\n")] = 0;
}

/* When the process is the child of a supervisor, reports the supervisor instead: a controller may
 * have files open that its supervisor does not. */
static void use_parent_server(struct as_resource_holder *h)
{
    static const struct wanted nothing;
    struct as_resource_holder parent = {.pid = as_process_ancestry_parent(h->pid)};

    if (parent.pid > 1)
        scan_descriptors(&parent, &nothing);
    if (parent.is_server)
        *h = parent;
}

/* A server's dispatcher and workers may have the resource open as well: the supervisor is
 * preferred.
 */
static bool find_process(struct as_resource_holder *ret_h, const struct wanted *w)
{
    DIR *dir = w->n ? opendir("/proc") : NULL;
    struct dirent *e;
    uint64_t pid;
    bool found = false;

    while (dir && !(found && ret_h->is_server) && (e = readdir(dir))) {
        struct as_resource_holder h = {0};

        if (as_str_u64(as_str_of(e->d_name), &pid) || pid > INT32_MAX || (pid_t)pid == getpid())
            continue;
        h.pid = (pid_t)pid;
        if (!scan_descriptors(&h, w) || (found && !h.is_server))
            continue;
        found = true;
        *ret_h = h;
    }
    if (dir)
        closedir(dir);
    if (found && !ret_h->is_server)
        use_parent_server(ret_h);
    if (found)
        read_details(ret_h);
    return found;
}

/* A line of /proc/net/tcp: "  0: 0100007F:1F40 00000000:0000 0A … uid timeout inode …". */
static void add_listener(struct wanted *w, const char *line, uint16_t port)
{
    char local[64], state[8], inode[32];
    const char *colon;

    if (sscanf(line, " %*s %63s %*s %7s %*s %*s %*s %*s %*s %31s", local, state, inode) != 3 ||
        strcmp(state, TCP_LISTEN) != 0 || !(colon = strrchr(local, ':')) ||
        strtoul(colon + 1, NULL, 16) != port || w->n == LISTENERS)
        return;
    snprintf(w->link[w->n++], sizeof(w->link[0]), "socket:[%s]", inode);
}

bool as_resource_holder_of_port(struct as_resource_holder *ret_h, uint16_t port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    struct wanted w = {.n = 0};
    char line[512];

    for (size_t i = 0; i < AS_COUNT(tables); i++) {
        FILE *f = fopen(tables[i], "re");

        while (f && fgets(line, sizeof(line), f))
            add_listener(&w, line, port);
        if (f)
            fclose(f);
    }
    return find_process(ret_h, &w);
}

bool as_resource_holder_of_file(struct as_resource_holder *ret_h, const char *path)
{
    char *real = realpath(path, NULL);
    struct wanted w = {.n = 0};

    if (real && strlen(real) < sizeof(w.link[0]))
        snprintf(w.link[w.n++], sizeof(w.link[0]), "%s", real);
    free(real);
    return find_process(ret_h, &w);
}

bool as_resource_holder_of_folder(struct as_resource_holder *ret_h, const char *runtime_dir,
                                  uint16_t port)
{
    *ret_h = (struct as_resource_holder){.pid = as_runtime_supervisor_pid(runtime_dir, port),
                                         .port = port};
    if (ret_h->pid <= 0 || !as_runtime_is_running(runtime_dir, port))
        return false;
    ret_h->is_server = true;
    snprintf(ret_h->runtime_dir, sizeof(ret_h->runtime_dir), "%s", runtime_dir);
    read_details(ret_h);
    return true;
}

void as_resource_holder_write(const struct as_resource_holder *h, struct as_buf *out)
{
    as_buf_printf(out, "pid %d", (int)h->pid);
    if (h->is_server && h->started_in[0])
        as_buf_printf(out, ", started in %s", h->started_in);
    if (h->is_server)
        as_buf_printf(out, ", runtime directory %s", h->runtime_dir);
}
