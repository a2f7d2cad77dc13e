#include "app/commands/status_commands.h"

#include "app/client/event_stream.h"
#include "conf/option/exit_code.h"
#include "io/process/runtime.h"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS 200u /* width of a table that is not shown on a terminal */
/* ECMA-48: cursor to the upper left corner; clear the rest of the line; of the screen. */
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static int print_page(const struct as_option_set *opts, const char *page)
{
    char target[64];
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_STATUS, .method = "GET", .target = target};

    snprintf(target, sizeof(target), "%s%s", page,
             as_option_bool(opts, AS_OPT_JSON) ? "" : "?format=text");
    return as_control_client_call_print(opts, &q);
}

/* --- following --- */

struct view {
    bool watch, json, is_screen;
    bool failed; /* stdout cannot be written */
};

static void print_text(struct view *v, struct as_str text)
{
    fwrite(text.p, 1, text.n, stdout);
    if (fflush(stdout) != 0)
        v->failed = true;
}

static void put_time(struct as_buf *b)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[16];

    localtime_r(&now, &tm);
    strftime(text, sizeof(text), "%H:%M:%S", &tm);
    as_buf_str(b, text);
}

static void on_raw(void *ctx, struct as_str data)
{
    struct view *v = ctx;

    print_text(v, data);
    print_text(v, AS_STR("\n"));
}

/* On a pipe: prints a line per change, and one for each row that exists at the start. */
static void on_change(void *ctx, const struct as_state *st, bool gone)
{
    struct as_buf line = {0};

    put_time(&line);
    as_buf_str(&line, " ");
    as_states_line(st, gone, &line);
    print_text(ctx, as_buf_slice(&line));
    as_buf_fini(&line);
}

/* Writes the whole screen at once, so that it does not flicker. */
static void redraw(struct view *v, const struct as_states *s)
{
    struct winsize size = {0};
    struct as_buf table = {0}, out = {0};
    struct as_str rest;

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size); /* stays 0 if the size is unknown */
    as_states_table(s, size.ws_col ? size.ws_col : 80,
                    size.ws_row ? AS_MAX(size.ws_row, 3u) - 2 : 22, &table);
    as_buf_str(&out, HOME);
    put_time(&out);
    as_buf_str(&out, "  what is served; Ctrl-C ends" CLEAR_LINE "\n");
    rest = as_buf_slice(&table);
    while (rest.n) {
        const char *nl = memchr(rest.p, '\n', rest.n);
        size_t n = nl ? (size_t)(nl - rest.p) : rest.n;

        as_buf_add(&out, rest.p, n);
        as_buf_str(&out, CLEAR_LINE "\n");
        rest = (struct as_str){rest.p + n + 1, rest.n - n - 1};
    }
    as_buf_str(&out, CLEAR_REST);
    print_text(v, as_buf_slice(&out));
    as_buf_fini(&table);
    as_buf_fini(&out);
}

static bool on_caught_up(void *ctx, const struct as_states *s)
{
    struct view *v = ctx;
    struct as_buf table = {0};

    if (v->is_screen) {
        redraw(v, s);
    } else if (!v->watch && !v->json) {
        as_states_table(s, COLUMNS, 0, &table);
        print_text(v, as_buf_slice(&table));
        as_buf_fini(&table);
    }
    return v->watch && !v->failed;
}

static int follow_events(const struct as_option_set *opts)
{
    struct view v = {.watch = as_option_bool(opts, AS_OPT_WATCH),
                     .json = as_option_bool(opts, AS_OPT_JSON)};
    struct as_event_stream f = {.on_caught_up = on_caught_up,
                                .ctx = &v,
                                .stop_fd = as_control_client_signal_fd(),
                                .deadline = AS_NEVER};
    int code;

    v.is_screen = v.watch && !v.json && isatty(STDOUT_FILENO);
    if (v.json)
        f.on_raw = on_raw;
    else if (v.watch && !v.is_screen)
        f.on_change = on_change;
    if (v.is_screen)
        print_text(&v, AS_STR(HOME CLEAR_REST));
    switch (as_event_stream_run(&f, opts)) {
    case AS_CONTROL_CLIENT_SIGNAL:
        code = AS_EXIT_CODE_OK;
        break;
    case AS_CONTROL_CLIENT_STOPPED:
        code = v.failed ? AS_EXIT_CODE_FAILED : AS_EXIT_CODE_OK;
        break;
    default: /* stderr says why */
        code = f.code;
        break;
    }
    close(f.stop_fd);
    as_event_stream_fini(&f);
    return code;
}

/* The controller's JSON: {"applications": …}. */
static int print_applications(const struct as_option_set *opts)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL, .method = "GET", .target = "/api/serve/applications/"};

    return as_control_client_call_print(opts, &q);
}

int as_status_main(struct as_option_set *opts)
{
    if (as_option_bool(opts, AS_OPT_WATCH))
        return follow_events(opts);
    if (!as_option_str(opts, AS_OPT_CONTROL)[0])
        return print_page(opts, "/status");
    return as_option_bool(opts, AS_OPT_JSON) ? print_applications(opts) : follow_events(opts);
}

int as_workers_main(struct as_option_set *opts)
{
    return print_page(opts, "/workers");
}
