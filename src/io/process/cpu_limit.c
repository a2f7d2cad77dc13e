#include "io/process/cpu_limit.h"

#include "base/str.h"
#include "io/process/cgroup_place.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES  128                 /* of one number, or two */
#define PERIOD_MOST ((uint64_t)1 << 32) /* the kernel's most is a second */
#define WHOLE       1000u
#define MOST        ((uint64_t)1024 * WHOLE) /* more is no limit on any machine */

/* The number at the start of the text, behind which *text points afterwards. */
static bool read_number(const char **text, uint64_t *ret_v)
{
    size_t n;

    *text += strspn(*text, " \t");
    n = strspn(*text, "0123456789");
    if (!n || as_str_u64((struct as_str){*text, n}, ret_v) < 0)
        return false;
    *text += n;
    return true;
}

/* Microseconds of CPU time, and of the period in which they may be used. False: the group has no
 * limit ("max 100000" of version 2, "-1" of version 1), or its files cannot be read. */
static bool read_quota(const struct as_cgroup_place *p, const char *root, uint64_t *ret_quota,
                       uint64_t *ret_period)
{
    char text[TEXT_BYTES];
    const char *at = text;

    if (!as_cgroup_place_read(p, root, p->v2 ? "cpu.max" : "cpu.cfs_quota_us", text,
                              sizeof(text)) ||
        !read_number(&at, ret_quota))
        return false;
    if (!p->v2) {
        at = text;
        if (!as_cgroup_place_read(p, root, "cpu.cfs_period_us", text, sizeof(text)))
            return false;
    }
    return read_number(&at, ret_period) && *ret_period > 0 && *ret_period <= PERIOD_MOST &&
           *ret_quota > 0;
}

uint64_t as_cpu_limit_quota(const char *root, pid_t pid)
{
    struct as_cgroup_place p;
    uint64_t least = MOST, quota, period;

    if (!as_cgroup_place_find(&p, root, pid, "cpu"))
        return 0;
    do {
        if (read_quota(&p, root, &quota, &period) && quota / period < MOST / WHOLE)
            least = AS_MIN(least, AS_MAX(quota * WHOLE / period, (uint64_t)1));
    } while (as_cgroup_place_up(&p));
    return least < MOST ? least : 0;
}

uint32_t as_cpu_limit_affinity(pid_t pid)
{
    cpu_set_t cpus;
    long n;

    if (sched_getaffinity(pid, sizeof(cpus), &cpus) == 0)
        return (uint32_t)AS_MAX(CPU_COUNT(&cpus), 1);
    n = sysconf(
        _SC_NPROCESSORS_ONLN); /* a mask of more than 1,024 CPUs does not fit into the set */
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t as_cpu_limit(const char *root)
{
    uint32_t n = as_cpu_limit_affinity(0);
    uint64_t quota = as_cpu_limit_quota(root, 0);

    return quota ? (uint32_t)AS_MIN((quota + WHOLE - 1) / WHOLE, (uint64_t)n) : n;
}
