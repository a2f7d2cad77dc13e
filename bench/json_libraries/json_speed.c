/* How fast a JSON library reads a request's tensor and prints an answer's: MB of text per second.
 *
 *     json_speed_NAME [ELEMENTS [SECONDS]]
 *
 * Prints one line of JSON. The elements are random in 0…1, printed as short as they read back the
 * same. */
#include "io/loop/clock.h"

#include "json_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a number of 17 digits, its comma and what printing puts behind it */
#define NUMBER_MAX 26U

static double now(void)
{
    return (double)as_clock_read(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
}

static size_t put(char *p, double v, bool fp64)
{
    int n = 0;

    for (int digits = 6; digits <= 17; digits++) {
        n = snprintf(p, NUMBER_MAX, "%.*g", digits, v);
        if (fp64 ? strtod(p, NULL) == v : strtof(p, NULL) == (float)v)
            break;
    }
    return (size_t)n;
}

static char *body_of(const void *data, size_t n, bool fp64, size_t *ret_n)
{
    char *body = calloc(1, 128 + NUMBER_MAX * n + SPEED_PADDING);
    size_t at = (size_t)sprintf(
        body, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":[%zu],\"data\":[",
        fp64 ? "FP64" : "FP32", n);

    for (size_t i = 0; i < n; i++) {
        if (i)
            body[at++] = ',';
        at += put(body + at, fp64 ? ((const double *)data)[i] : (double)((const float *)data)[i],
                  fp64);
    }
    at += (size_t)sprintf(body + at, "]}]}");
    *ret_n = at;
    return body;
}

static void wrong(const char *what)
{
    fprintf(stderr, "json_speed: %s\n", what);
    exit(1);
}

static void measure(bool fp64, size_t n, double seconds, bool last)
{
    size_t size = fp64 ? 8 : 4, len, printed = 0, rounds = 0;
    void *data = calloc(n, size), *out = calloc(n, size);
    double start, parse, print = 0;
    char *body;

    for (size_t i = 0; i < n; i++) {
        if (fp64)
            ((double *)data)[i] = drand48();
        else
            ((float *)data)[i] = (float)drand48();
    }
    body = body_of(data, n, fp64, &len);
    if (speed_parse(body, len, fp64, out) != n || memcmp(data, out, n * size) != 0)
        wrong("the library reads other values");
    start = now();
    do {
        for (int i = 0; i < 16; i++, rounds++)
            speed_parse(body, len, fp64, out);
        parse = now() - start;
    } while (parse < seconds);
    parse = (double)(rounds * len) / parse / 1e6;
    rounds = 0;
    if (speed_print(data, n, fp64)) {
        start = now();
        do {
            for (int i = 0; i < 16; i++, rounds++)
                printed += speed_print(data, n, fp64);
            print = now() - start;
        } while (print < seconds);
        print = (double)printed / print / 1e6;
    }
    printf("\"%s\":{\"bytes\":%zu,\"parse\":%.1f,\"print\":%.1f}%s", fp64 ? "FP64" : "FP32", len,
           parse, print, last ? "}\n" : ",");
    free(body);
    free(data);
    free(out);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)atol(argv[1]) : 1000;
    double seconds = argc > 2 ? atof(argv[2]) : 0.3;

    printf("{");
    measure(false, n, seconds, false);
    measure(true, n, seconds, true);
    return 0;
}
