#include "ctl/state/outcome.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PATH_BYTES 4096

void as_outcome_write(const char *folder, const char *name, struct as_str text)
{
    char path[PATH_BYTES], fresh[PATH_BYTES];
    bool ok;
    int fd;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_BYTES ||
        snprintf(fresh, sizeof(fresh), "%s/%s.new", folder, name) >= PATH_BYTES)
        return;
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    ok = write(fd, text.p, text.n) == (ssize_t)text.n;
    close(fd);
    if (ok)
        (void)rename(fresh, path);
}
