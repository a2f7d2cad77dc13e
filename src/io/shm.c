#include "io/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct region {
    struct region *next;
    char *name, *key;
    uid_t user; /* only this user's clients may use it */
    uint64_t offset, size;
    int fd;
    uint32_t refs; /* the table's, and one for each read or write under way */
};

struct as_shm {
    pthread_mutex_t lock; /* protects all fields below, and region.refs */
    struct as_shm_conf conf;
    struct region *first;
    uint32_t n;
    uint64_t bytes;
};

AS_PRINTF(4, 5)
static int fail(char *why, size_t cap, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, cap, fmt, ap);
    va_end(ap);
    return err;
}

#define SHOWN(s) AS_STR_CUT(s, 64)

int as_shm_new(struct as_shm **ret_t, const struct as_shm_conf *conf)
{
    struct as_shm *t = as_xalloc(sizeof(*t));

    if (pthread_mutex_init(&t->lock, NULL)) {
        free(t);
        return AS_EIO;
    }
    t->conf = *conf;
    *ret_t = t;
    return 0;
}

/* --- the table; the caller holds the lock --- */

static void unref_region(struct region *r)
{
    if (--r->refs)
        return;
    close(r->fd);
    free(r->name);
    free(r->key);
    free(r);
}

static void remove_region(struct as_shm *t, struct region **at)
{
    struct region *r = *at;

    *at = r->next;
    t->n--;
    t->bytes -= r->size;
    unref_region(r);
}

/* Is it the user's region of that name, or any region of the user when the name is empty? */
static bool matches(const struct region *r, uid_t user, struct as_str name)
{
    return r->user == user && (!name.n || as_str_eq(as_str_of(r->name), name));
}

static struct region *find_region(const struct as_shm *t, uid_t user, struct as_str name)
{
    for (struct region *r = t->first; name.n && r; r = r->next) {
        if (matches(r, user, name))
            return r;
    }
    return NULL;
}

/* 0: a region with this name and size may be added. */
static int may_add(const struct as_shm *t, uid_t user, struct as_str name, uint64_t size, char *why,
                   size_t cap)
{
    if (find_region(t, user, name))
        return fail(why, cap, AS_EEXISTS, "shared memory region '%.*s' is registered already",
                    SHOWN(name));
    if (t->n >= t->conf.max_regions)
        return fail(why, cap, AS_EFULL,
                    "shared memory region '%.*s': there are already %u regions (--max-shm-regions)",
                    SHOWN(name), t->n);
    if (size > t->conf.max_bytes - t->bytes)
        return fail(why, cap, AS_EFULL,
                    "shared memory region '%.*s': %llu bytes, with %llu of other regions, exceed "
                    "--max-shm-bytes %llu",
                    SHOWN(name), (unsigned long long)size, (unsigned long long)t->bytes,
                    (unsigned long long)t->conf.max_bytes);
    return 0;
}

static void add_region(struct as_shm *t, uid_t user, struct as_str name, struct as_str key,
                       uint64_t offset, uint64_t size, int fd)
{
    struct region *r = as_xalloc(sizeof(*r));

    *r = (struct region){.next = t->first,
                         .name = as_str_dup(name),
                         .key = as_str_dup(key),
                         .user = user,
                         .offset = offset,
                         .size = size,
                         .fd = fd,
                         .refs = 1};
    t->first = r;
    t->n++;
    t->bytes += size;
}

void as_shm_free(struct as_shm *t)
{
    if (!t)
        return;
    while (t->first)
        remove_region(t, &t->first);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* --- registering --- */

static bool is_name(struct as_str s)
{
    return s.n && s.n <= AS_SHM_NAME_MAX && !memchr(s.p, 0, s.n);
}

/* The object's name without its slash; NULL: it is not the name of an object. */
static char *key_of(struct as_str key)
{
    if (key.n && key.p[0] == '/')
        key = (struct as_str){key.p + 1, key.n - 1};
    if (!is_name(key) || memchr(key.p, '/', key.n) || as_str_eq(key, AS_STR(".")) ||
        as_str_eq(key, AS_STR("..")))
        return NULL;
    return as_str_dup(key);
}

/* 0: clients may register an object with this name. */
static int check_key(const struct as_shm *t, const char *key, struct as_str name, char *why,
                     size_t cap)
{
    if (strncmp(key, AS_SHM_OWN_PREFIX, strlen(AS_SHM_OWN_PREFIX)) == 0)
        return fail(why, cap, AS_EDENIED,
                    "shared memory region '%.*s': names that begin with '" AS_SHM_OWN_PREFIX
                    "' are the server's own",
                    SHOWN(name));
    if (t->conf.prefix && strncmp(key, t->conf.prefix, strlen(t->conf.prefix)) != 0)
        return fail(
            why, cap, AS_EDENIED,
            "shared memory region '%.*s': '%.64s' does not begin with '%s' (--client-shm-prefix)",
            SHOWN(name), key, t->conf.prefix);
    return 0;
}

/* Is it certain that this user could open the object to read and write? The groups of a client are
 * unknown, so both the group and all others need the permission; an object with an access control
 * list (acl(5)) is only permitted for its owner. */
static bool may_open(int fd, const struct stat *st, uid_t user)
{
    static const mode_t of_owner = S_IRUSR | S_IWUSR;
    static const mode_t of_rest = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;

    if (user == 0)
        return true;
    if (user == st->st_uid)
        return (st->st_mode & of_owner) == of_owner;
    return (st->st_mode & of_rest) == of_rest &&
           fgetxattr(fd, "system.posix_acl_access", NULL, 0) < 0 &&
           (errno == ENODATA || errno == EOPNOTSUPP);
}

/* A descriptor of the object, which must be a regular file that contains the range, or an error. */
static int open_object(const char *key, uid_t user, struct as_str name, uint64_t offset,
                       uint64_t size, char *why, size_t cap)
{
    int fd = shm_open(key, O_RDWR | O_CLOEXEC, 0), failed = errno;
    struct stat st;

    if (fd < 0)
        return fail(why, cap,
                    failed == ENOENT                      ? AS_ENOTFOUND
                    : failed == EACCES || failed == EPERM ? AS_EDENIED
                                                          : AS_EIO,
                    "shared memory region '%.*s': cannot open '%s': %s", SHOWN(name), key,
                    strerror(failed));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return fail(why, cap, AS_EINVALID,
                    "shared memory region '%.*s': '%s' is not a shared memory object", SHOWN(name),
                    key);
    }
    if (!may_open(fd, &st, user)) {
        close(fd);
        return fail(why, cap, AS_EDENIED,
                    "shared memory region '%.*s': user %u may not read and write '%.64s' (mode "
                    "%04o, of user %u)",
                    SHOWN(name), (unsigned)user, key, (unsigned)st.st_mode & 07777u,
                    (unsigned)st.st_uid);
    }
    if (size > (uint64_t)st.st_size || offset > (uint64_t)st.st_size - size) {
        close(fd);
        return fail(why, cap, AS_EINVALID,
                    "shared memory region '%.*s': %llu bytes from byte %llu on are not within "
                    "'%s', which has %llu",
                    SHOWN(name), (unsigned long long)size, (unsigned long long)offset, key,
                    (unsigned long long)st.st_size);
    }
    return fd;
}

int as_shm_register(struct as_shm *t, uid_t user, struct as_str name, struct as_str key,
                    uint64_t offset, uint64_t size, char *why, size_t cap)
{
    char *object;
    int fd, err;

    if (!is_name(name))
        return fail(why, cap, AS_EINVALID, "a shared memory region's name must have 1 to %u bytes",
                    AS_SHM_NAME_MAX);
    if (!size)
        return fail(why, cap, AS_EINVALID, "shared memory region '%.*s' has no bytes", SHOWN(name));
    object = key_of(key);
    if (!object)
        return fail(why, cap, AS_EINVALID,
                    "shared memory region '%.*s': key '%.*s' is not the name of an object",
                    SHOWN(name), SHOWN(key));
    fd = check_key(t, object, name, why, cap);
    if (!fd)
        fd = open_object(object, user, name, offset, size, why, cap);
    free(object);
    if (fd < 0)
        return fd;
    pthread_mutex_lock(&t->lock);
    err = may_add(t, user, name, size, why, cap);
    if (err)
        close(fd);
    else
        add_region(t, user, name, key, offset, size, fd);
    pthread_mutex_unlock(&t->lock);
    return err;
}

uint32_t as_shm_unregister(struct as_shm *t, uid_t user, struct as_str name)
{
    uint32_t n = 0;

    pthread_mutex_lock(&t->lock);
    for (struct region **at = &t->first; *at;) {
        if (matches(*at, user, name)) {
            remove_region(t, at);
            n++;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* --- using --- */

/* A region that is not freed before release_region; NULL: see *ret_err. */
static struct region *acquire_region(struct as_shm *t, uid_t user, struct as_str name,
                                     uint64_t offset, uint64_t n, int *ret_err, char *why,
                                     size_t cap)
{
    struct region *r;
    uint64_t size = 0;

    pthread_mutex_lock(&t->lock);
    r = find_region(t, user, name);
    if (r) {
        size = r->size;
        r->refs++;
    }
    pthread_mutex_unlock(&t->lock);
    if (!r) {
        *ret_err =
            fail(why, cap, AS_ENOTFOUND, "there is no shared memory region '%.*s'", SHOWN(name));
        return NULL;
    }
    if (n <= size && offset <= size - n)
        return r;
    pthread_mutex_lock(&t->lock);
    unref_region(r);
    pthread_mutex_unlock(&t->lock);
    *ret_err = fail(why, cap, AS_EINVALID,
                    "%llu bytes from byte %llu on are not within shared memory region '%.*s', "
                    "which has %llu",
                    (unsigned long long)n, (unsigned long long)offset, SHOWN(name),
                    (unsigned long long)size);
    return NULL;
}

static void release_region(struct as_shm *t, struct region *r)
{
    pthread_mutex_lock(&t->lock);
    unref_region(r);
    pthread_mutex_unlock(&t->lock);
}

static int fail_io(struct as_str name, char *why, size_t cap)
{
    return fail(why, cap, AS_EIO, "shared memory region '%.*s': %s", SHOWN(name), strerror(errno));
}

static int fail_shrunk(struct as_str name, char *why, size_t cap)
{
    return fail(why, cap, AS_EINVALID,
                "shared memory region '%.*s' has become smaller since it was registered",
                SHOWN(name));
}

static int read_region(const struct region *r, uint64_t offset, uint8_t *out, size_t n,
                       struct as_str name, char *why, size_t cap)
{
    while (n) {
        ssize_t k = pread(r->fd, out, n, (off_t)(r->offset + offset));

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return fail_io(name, why, cap);
        if (k == 0)
            return fail_shrunk(name, why, cap);
        out += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

/* Checks the size first, since a write would enlarge an object that has become smaller. A client
 * that shrinks it after the check only gets back the bytes that it had registered. */
static int write_region(const struct region *r, uint64_t offset, const uint8_t *p, size_t n,
                        struct as_str name, char *why, size_t cap)
{
    struct stat st;

    if (fstat(r->fd, &st) < 0)
        return fail_io(name, why, cap);
    if ((uint64_t)st.st_size < r->offset + offset + n)
        return fail_shrunk(name, why, cap);
    while (n) {
        ssize_t k = pwrite(r->fd, p, n, (off_t)(r->offset + offset));

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail_io(name, why, cap);
        p += k;
        offset += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

/* Reads into `out`, or writes from `in`; neither: only the checks. */
static int use_region(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint64_t n,
                      uint8_t *out, const uint8_t *in, char *why, size_t cap)
{
    int err;
    struct region *r = acquire_region(t, user, name, offset, n, &err, why, cap);

    if (!r)
        return err;
    if (out)
        err = read_region(r, offset, out, (size_t)n, name, why, cap);
    else
        err = in ? write_region(r, offset, in, (size_t)n, name, why, cap) : 0;
    release_region(t, r);
    return err;
}

int as_shm_read(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint8_t *out,
                size_t n, char *why, size_t cap)
{
    return use_region(t, user, name, offset, n, out, NULL, why, cap);
}

int as_shm_write(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset,
                 const uint8_t *p, size_t n, char *why, size_t cap)
{
    return use_region(t, user, name, offset, n, NULL, p, why, cap);
}

int as_shm_check(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint64_t n,
                 char *why, size_t cap)
{
    return use_region(t, user, name, offset, n, NULL, NULL, why, cap);
}

uint32_t as_shm_each(struct as_shm *t, uid_t user, struct as_str name,
                     void (*fn)(void *arg, struct as_str name, struct as_str key, uint64_t offset,
                                uint64_t size),
                     void *arg)
{
    uint32_t n = 0;

    pthread_mutex_lock(&t->lock);
    for (struct region *r = t->first; r; r = r->next) {
        if (!matches(r, user, name))
            continue;
        fn(arg, as_str_of(r->name), as_str_of(r->key), r->offset, r->size);
        n++;
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}
