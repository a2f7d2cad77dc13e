/* Finding the server on this machine: its socket and the join token. */
#include "io/process/runtime.h"
#include "link/worker/worker_internal.h"

#include <sys/stat.h>
#include <unistd.h>

#define PORT_DEFAULT 8000 /* the default of --port */

static_assert(AS_WORKER_PATH == AS_RUNTIME_PATH_MAX, "public limit");
static_assert(AS_WORKER_TOKEN == AS_RUNTIME_TOKEN_LEN + 1, "public limit");

/* The folder must be ours: in /tmp any user can create one with this name. */
static int is_ours(const char *folder)
{
    struct stat st;

    if (lstat(folder, &st) < 0)
        return AS_ENOTFOUND;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() ? 0 : AS_EDENIED;
}

int as_worker_locate_as(const char *token_name, const char *runtime_dir, uint32_t port,
                        char ret_path[AS_WORKER_PATH], char ret_token[AS_WORKER_TOKEN])
{
    char path[AS_RUNTIME_PATH_MAX], token[AS_RUNTIME_TOKEN_LEN + 1];
    struct as_runtime_search f;
    int err;

    if (port > UINT16_MAX)
        return AS_EINVALID;
    as_runtime_find(&f, runtime_dir ? runtime_dir : "", port != 0,
                    port ? (uint16_t)port : PORT_DEFAULT);
    if (!port && f.n_matching > 1) { /* documented in worker.h */
        as_runtime_search_fini(&f);
        as_runtime_find(&f, runtime_dir ? runtime_dir : "", true, PORT_DEFAULT);
    }
    err = is_ours(f.chosen.base);
    if (!err)
        err = as_runtime_path(path, f.chosen.base, f.chosen.port, AS_RUNTIME_LINK);
    if (!err)
        err = as_runtime_read_token_of(f.chosen.base, f.chosen.port, token_name, token);
    as_runtime_search_fini(&f);
    if (err)
        return err == AS_EPROTO ? AS_ENOTFOUND : err; /* AS_EPROTO: the token is being written */
    memcpy(ret_path, path, sizeof(path));
    memcpy(ret_token, token, sizeof(token));
    return 0;
}

int as_worker_locate(const char *runtime_dir, uint32_t port, char ret_path[AS_WORKER_PATH],
                     char ret_token[AS_WORKER_TOKEN])
{
    return as_worker_locate_as(AS_RUNTIME_TOKEN, runtime_dir, port, ret_path, ret_token);
}
