#include "link/page.h"

#include "base/err.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* The lock is a robust glibc mutex laid over the page, whose first word is the futex: so the
 * kernel's list of robust locks of this thread stays glibc's business. The mutex's other words
 * follow in the page and mean nothing to the reader. */
static_assert(offsetof(struct as_page, lock) + sizeof(pthread_mutex_t) <=
                  offsetof(struct as_page, stat),
              "fits");
static_assert(offsetof(struct as_page, lock) % _Alignof(pthread_mutex_t) == 0, "aligned");

static pthread_mutex_t *mutex_of(struct as_page *p)
{
    return (pthread_mutex_t *)(void *)((uint8_t *)p + offsetof(struct as_page, lock));
}

static int acquire_lock(struct as_page *p)
{
    pthread_mutexattr_t attr;
    int err;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    err = pthread_mutex_init(mutex_of(p), &attr);
    if (!err)
        err = pthread_mutex_trylock(mutex_of(p)); /* nobody else can have it yet */
    pthread_mutexattr_destroy(&attr);
    if (err || (p->lock & FUTEX_TID_MASK) != (uint32_t)gettid())
        return AS_EIO;
    /* The kernel wakes waiters only if this bit is set. */
    __atomic_or_fetch(&p->lock, FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    return 0;
}

int as_page_open(struct as_page_writer *w)
{
    int fd = memfd_create("anyserve-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *p;

    if (fd < 0)
        return AS_EIO;
    if (ftruncate(fd, AS_PAGE_SIZE) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        close(fd);
        return AS_EIO;
    }
    p = mmap(NULL, AS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        return AS_EIO;
    }
    w->page = p;
    w->fd = fd;
    w->page->magic = AS_PAGE_MAGIC;
    w->page->version = AS_FRAME_VERSION;
    if (acquire_lock(w->page) == 0)
        return 0;
    as_page_forked(w);
    return AS_EIO;
}

void as_page_close(struct as_page_writer *w)
{
    if (!w->page)
        return;
    pthread_mutex_unlock(mutex_of(w->page));
    as_page_forked(w);
}

void as_page_forked(struct as_page_writer *w)
{
    if (!w->page)
        return;
    munmap(w->page, AS_PAGE_SIZE);
    close(w->fd);
    *w = (struct as_page_writer){.fd = -1};
}
