/* fuzz/runner.c — replays a folder of inputs through a fuzz target, so that a corpus is a test.
 *
 * Each file is passed as a whole, and cut to each length from 0 to 64. Prints how many files ran.
 */
#include "base/buf.h"

#include <dirent.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path, unsigned *count)
{
    struct as_buf b;
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f)
        return;
    as_buf_init(&b);
    while ((n = fread(as_buf_reserve(&b, 65536), 1, 65536, f)) > 0)
        b.n += n;
    fclose(f);
    /* Most bugs of parsers show at the end of the input, and in its first fields. */
    for (size_t cut = 0; cut <= AS_MIN(b.n, (size_t)64); cut++) {
        uint8_t *exact = as_xalloc(cut); /* so that a sanitizer finds a read beyond its end */

        if (cut)
            memcpy(exact, b.p, cut);
        LLVMFuzzerTestOneInput(exact, cut);
        free(exact);
    }
    LLVMFuzzerTestOneInput(b.p ? b.p : (const uint8_t *)"", b.n);
    as_buf_fini(&b);
    ++*count;
}

int main(int argc, char **argv)
{
    struct dirent *e;
    unsigned count = 0;
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;

    if (!d) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    while ((e = readdir(d))) {
        char path[4096];

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
        run_file(path, &count);
    }
    closedir(d);
    printf("%u inputs\n", count);
    /* an empty folder is a mistake of the build, not a pass */
    return count ? 0 : 1;
}
