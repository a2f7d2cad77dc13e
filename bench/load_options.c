/* bench/load_options.c — see the header. */
#include "load_options.h"

#include <getopt.h>

static const char help[] =
    "load [options]: ModelInfer calls, answers checked, result as JSON\n"
    "  --host A, --port P           the server (127.0.0.1, 8000)\n"
    "  --connections N, --streams N closed loop: calls in flight = N × N (1, 1); open loop: at "
    "most\n"
    "  --rate N                     open loop: N calls a second, latency counts from when one was "
    "due\n"
    "  --arrivals poisson|constant  gaps between the calls of an open loop (poisson)\n"
    "  --seed N                     of the random gaps (1)\n"
    "  --payload BYTES              size of an FP32 tensor, a multiple of 4, 8 or more (128)\n"
    "  --inputs 1|2                 one tensor \"x\", or \"a\" and \"b\" (1)\n"
    "  --answer last|sum            what must come back: the last input, or a + b (last)\n"
    "  --model NAME                 (echo)\n"
    "  --timeout-ms N               send grpc-timeout (0: none)\n"
    "  --warmup S, --duration S     seconds (0.3, 1)\n"
    "  --requests N                 closed loop: exactly N calls instead, no warm-up\n"
    "  --watch PID                  report its CPU time; may be repeated\n";

static void usage(void)
{
    fputs(help, stderr);
    exit(2);
}

/* One of two words: whether it is the second. */
static bool is_second(const char *value, const char *first, const char *second)
{
    if (strcmp(value, first) != 0 && strcmp(value, second) != 0)
        usage();
    return strcmp(value, second) == 0;
}

static void take(struct as_load_command *c, int letter, const char *value)
{
    unsigned long n = strtoul(value, NULL, 10);

    switch (letter) {
    case 'h':
        c->host = value;
        break;
    case 'p':
        c->port = value;
        break;
    case 'c':
        c->connections = (uint32_t)n;
        break;
    case 's':
        c->shape.streams = (uint32_t)n;
        break;
    case 'r':
        c->rate = n;
        c->shape.is_open = true;
        break;
    case 'a':
        c->is_poisson = is_second(value, "constant", "poisson");
        break;
    case 'S':
        c->seed = n;
        break;
    case 'b':
        c->shape.payload = n;
        break;
    case 'i':
        c->shape.inputs = (uint32_t)n;
        break;
    case 'A':
        c->shape.is_sum = is_second(value, "last", "sum");
        break;
    case 'm':
        c->shape.model = value;
        break;
    case 't':
        c->shape.timeout_ms = (uint32_t)n;
        break;
    case 'w':
        c->warmup = strtod(value, NULL);
        break;
    case 'd':
        c->seconds = strtod(value, NULL);
        break;
    case 'n':
        c->requests = n;
        break;
    case 'W':
        if (c->n_watch == AS_LOAD_WATCH_MAX)
            usage();
        c->watch[c->n_watch++] = (int)n;
        break;
    }
}

static bool makes_sense(const struct as_load_command *c)
{
    const struct as_load_options *s = &c->shape;

    return c->connections && s->streams && s->payload >= 8 && s->payload % 4 == 0 &&
           s->payload <= (1u << 30) && (s->inputs == 1 || s->inputs == 2) &&
           (s->inputs == 2 || !s->is_sum) && (!s->is_open || (c->rate && !c->requests));
}

void as_load_command_parse(struct as_load_command *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'},    {"port", 1, 0, 'p'},     {"connections", 1, 0, 'c'},
        {"streams", 1, 0, 's'}, {"rate", 1, 0, 'r'},     {"arrivals", 1, 0, 'a'},
        {"seed", 1, 0, 'S'},    {"payload", 1, 0, 'b'},  {"inputs", 1, 0, 'i'},
        {"answer", 1, 0, 'A'},  {"model", 1, 0, 'm'},    {"timeout-ms", 1, 0, 't'},
        {"warmup", 1, 0, 'w'},  {"duration", 1, 0, 'd'}, {"requests", 1, 0, 'n'},
        {"watch", 1, 0, 'W'},   {"help", 0, 0, '?'},     {0},
    };
    int letter;

    *c = (struct as_load_command){
        .shape = {.model = "echo", .streams = 1, .payload = 128, .inputs = 1},
        .host = "127.0.0.1",
        .port = "8000",
        .connections = 1,
        .seconds = 1,
        .warmup = .3,
        .is_poisson = true,
        .seed = 1};
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (letter == '?')
            usage();
        take(c, letter, optarg);
    }
    if (optind < argc || !makes_sense(c))
        usage();
}
