/* Specification of ctl/output/journal: the newest lines of each name, bounded, in files. */
#include "ctl/output/journal.h"

#include "base/buf.h"
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[64], folder[96];
static struct as_journal j;

static int up(void **state AS_UNUSED)
{
    char port[80];

    snprintf(base, sizeof(base), "/tmp/as_journal_XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(port, sizeof(port), "%s/7", base);
    snprintf(folder, sizeof(folder), "%s/logs", port);
    return mkdir(port, 0700) || mkdir(folder, 0700);
}

static int down(void **state AS_UNUSED)
{
    char command[128];

    as_journal_close(&j);
    snprintf(command, sizeof(command), "rm -r %s", base);
    return system(command);
}

static void open_journal(uint64_t keep, uint32_t max_retired)
{
    assert_int_equal(as_journal_open(&j, base, 7, "own", keep, max_retired), 0);
}

static void write_line(const char *name, const char *line)
{
    as_journal_write(&j, name, AS_STR(""), as_str_of(line));
}

/* The lines of a file without their times, a '|' behind each; "-": no file. */
static const char *lines_of(const char *file)
{
    static char text[65536];
    char path[400], line[32768];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    f = fopen(path, "re");
    if (!f)
        return "-";
    text[0] = 0;
    while (fgets(line, sizeof(line), f)) {
        assert_true(strlen(line) > AS_JOURNAL_TIMESTAMP);
        assert_memory_equal(line + 10, "T", 1);
        assert_memory_equal(line + AS_JOURNAL_TIMESTAMP - 1, "Z ", 2);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s|",
                              (int)strcspn(line + AS_JOURNAL_TIMESTAMP + 1, "\n"),
                              line + AS_JOURNAL_TIMESTAMP + 1);
    }
    fclose(f);
    return text;
}

static void each_name_has_a_file(void **state AS_UNUSED)
{
    struct stat st;
    char path[128];

    open_journal(4096, 1);
    write_line("own", "a");
    write_line("rank-0", "b c");
    as_journal_write(&j, "own", AS_STR("time=1 "), AS_STR("d"));
    assert_string_equal(lines_of("own.log"), "a|time=1 d|");
    assert_string_equal(lines_of("rank-0.log"), "b c|");
    snprintf(path, sizeof(path), "%s/own.log", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void lines_of_an_earlier_process_stay(void **state AS_UNUSED)
{
    open_journal(4096, 1);
    write_line("own", "first");
    as_journal_close(&j);
    write_line("own", "nobody hears this"); /* closed: ignored */
    open_journal(4096, 1);
    write_line("own", "second");
    assert_string_equal(lines_of("own.log"), "first|second|");
}

/* A line takes 26 bytes more than its text. */
static void one_file_has_half_of_the_bytes(void **state AS_UNUSED)
{
    char text[38];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    open_journal(252, 1); /* 126: two lines of 63 bytes fit, at N */
    write_line("own", text);
    write_line("own", text);
    assert_string_equal(lines_of("own.log.1"), "-");
    write_line("own", "third"); /* N + 1 */
    assert_int_equal(strlen(lines_of("own.log.1")), 2 * 38);
    assert_string_equal(lines_of("own.log"), "third|");
    for (int i = 0; i < 100; i++)
        write_line("own", text);
    assert_true(strlen(lines_of("own.log.1")) <= 2 * 38);
    assert_true(strlen(lines_of("own.log")) <= 2 * 38);
}

static void a_line_is_not_longer_than_a_file(void **state AS_UNUSED)
{
    static char text[20000];

    memset(text, 'x', sizeof(text) - 1);
    open_journal(1024, 1);
    write_line("own", text);
    write_line("own", "b");
    assert_int_equal(strlen(lines_of("own.log.1")), 512 + 1);
    assert_string_equal(lines_of("own.log"), "b|");
}

static void more_names_than_open_files(void **state AS_UNUSED)
{
    char name[16];

    open_journal(4096, 1);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3 * AS_JOURNAL_OPEN_MAX; i++) {
            snprintf(name, sizeof(name), "r-%u", i);
            write_line(name, name);
        }
    }
    assert_string_equal(lines_of("r-0.log"), "r-0|r-0|r-0|");
    assert_string_equal(lines_of("r-23.log"), "r-23|r-23|r-23|");
}

static void two_writers_of_a_name_do_not_lose_a_file(void **state AS_UNUSED)
{
    static struct as_journal other;

    open_journal(200, 1);
    assert_int_equal(as_journal_open(&other, base, 7, "own", 200, 0), 0);
    write_line("own", "a line of some length that fills it");
    as_journal_write(&other, "own", AS_STR(""), AS_STR("a second line of the same length..."));
    write_line("own", "a third line begins the next file");
    /* it does not know of the rotation, and is over the bound by its own count */
    as_journal_write(&other, "own", AS_STR(""),
                     AS_STR("a fourth line, which goes there too, at last"));
    assert_string_equal(lines_of("own.log.1"),
                        "a line of some length that fills it|a second line of the "
                        "same length...|");
    assert_string_equal(lines_of("own.log"),
                        "a third line begins the next file|a fourth line, which goes "
                        "there too, at last|");
    as_journal_close(&other);
}

/* RLIMIT_FSIZE stands for a full disk. */
static void a_partial_line_ends_before_the_next_one(void **state AS_UNUSED)
{
    struct rlimit was, small;

    signal(SIGXFSZ, SIG_IGN);
    open_journal(4096, 1);
    write_line("own", "first");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = (struct rlimit){31 + 28, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    write_line("own", "torn, and lost");
    write_line("own", "lost");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    write_line("own", "second");
    write_line("own", "third");
    assert_string_equal(lines_of("own.log"), "first|tor|second|third|");
}

static void a_failed_open_is_tried_again(void **state AS_UNUSED)
{
    char path[128];

    open_journal(64, 1);
    write_line("own", "first");
    snprintf(path, sizeof(path), "%s/own.log", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* a folder cannot be written to */
    write_line("own", "lost, at the end of the file");
    assert_int_equal(rmdir(path), 0);
    write_line("own", "back");
    assert_string_equal(lines_of("own.log"), "back|");
}

static void the_newest_retired_names_are_kept(void **state AS_UNUSED)
{
    open_journal(4096, 2);
    for (int i = 0; i < 4; i++) {
        char name[8];

        snprintf(name, sizeof(name), "r-%d", i);
        write_line(name, "x");
        as_journal_retire(&j, name);
    }
    assert_string_equal(lines_of("r-0.log"), "-");
    assert_string_equal(lines_of("r-1.log"), "-");
    assert_string_equal(lines_of("r-2.log"), "x|");
    write_line("r-2", "again"); /* the name is in use again */
    for (int i = 4; i < 7; i++) {
        char name[8];

        snprintf(name, sizeof(name), "r-%d", i);
        write_line(name, "x");
        as_journal_retire(&j, name);
    }
    assert_string_equal(lines_of("r-2.log"), "x|again|");
    assert_string_equal(lines_of("r-3.log"), "-");
    assert_string_equal(lines_of("r-4.log"), "-");
    assert_string_equal(lines_of("r-5.log"), "x|");
    as_journal_retire(&j, "r-6"); /* a second time changes nothing */
    assert_string_equal(lines_of("r-5.log"), "x|");
}

static void retired_names_survive_an_exec(void **state AS_UNUSED)
{
    As__Supervisor *saved = as_reexec_new(&as__supervisor__descriptor);

    open_journal(4096, 2);
    write_line("a", "of a");
    write_line("b", "of b");
    as_journal_retire(&j, "a");
    as_journal_retire(&j, "b");
    as_journal_save(&j, saved);
    as_journal_close(&j);
    open_journal(4096, 2);
    as_journal_restore(&j, saved);
    as_reexec_free(saved);
    write_line("c", "of c");
    as_journal_retire(&j, "c");
    assert_string_equal(lines_of("a.log"), "-");
    assert_string_equal(lines_of("b.log"), "of b|");
    assert_string_equal(lines_of("c.log"), "of c|");
}

static void a_silent_process_has_a_file(void **state AS_UNUSED)
{
    open_journal(4096, 1);
    as_journal_add(&j, "r-0");
    assert_string_equal(lines_of("r-0.log"), "");
    write_line("r-0", "x");
    as_journal_add(&j, "r-0");
    assert_string_equal(lines_of("r-0.log"), "x|");
}

static void no_retired_name_is_kept(void **state AS_UNUSED)
{
    open_journal(4096, 0);
    write_line("r-0", "x");
    as_journal_retire(&j, "r-0");
    assert_string_equal(lines_of("r-0.log"), "-");
}

static void a_journal_without_bytes_writes_nothing(void **state AS_UNUSED)
{
    open_journal(0, 1);
    write_line("own", "x");
    as_journal_retire(&j, "own");
    assert_string_equal(lines_of("own.log"), "-");
    as_journal_write(NULL, "own", AS_STR(""), AS_STR("x"));
    as_journal_retire(NULL, "own");
}

static void a_missing_folder_is_an_error(void **state AS_UNUSED)
{
    assert_int_equal(as_journal_open(&j, base, 8, "own", 4096, 1), AS_EIO);
    write_line("own", "x");
    as_journal_retire(&j, "own");
}

static void names_and_files(void **state AS_UNUSED)
{
    static const char *const rows[][2] = {
        {"rank-0", "rank-0.log"},   {"a.b_C9", "a.b_C9.log"}, {"../x", "%2E.%2Fx.log"},
        {".", "%2E.log"},           {"-f", "%2Df.log"},       {"a b\n", "a%20b%0A.log"},
        {"\xc3\xa9", "%C3%A9.log"}, {"50%", "50%25.log"},     {"shop/r-1", "shop%2Fr-1.log"},
    };
    char file[AS_JOURNAL_FILE_MAX], name[AS_JOURNAL_FILE_MAX], other[AS_JOURNAL_FILE_MAX],
        text[300];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        as_journal_file_name(file, rows[i][0]);
        assert_string_equal(file, rows[i][1]);
        assert_true(as_journal_parse_file_name(file, name));
        assert_string_equal(name, rows[i][0]);
    }
    assert_false(as_journal_parse_file_name("x.log.1", name));
    assert_false(as_journal_parse_file_name(".log", name));
    assert_false(as_journal_parse_file_name("x%2.log", name));
    assert_false(as_journal_parse_file_name("x%zz.log", name));
    memset(text, '/', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    as_journal_file_name(file, text);
    text[sizeof(text) - 2] = 'x';
    as_journal_file_name(other, text);
    assert_string_not_equal(file, other); /* although both are cut */
    assert_true(strlen(file) + sizeof(AS_JOURNAL_ROTATED) - 1 < 256);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_name_has_a_file),
        T(lines_of_an_earlier_process_stay),
        T(one_file_has_half_of_the_bytes),
        T(a_line_is_not_longer_than_a_file),
        T(more_names_than_open_files),
        T(two_writers_of_a_name_do_not_lose_a_file),
        T(a_partial_line_ends_before_the_next_one),
        T(a_failed_open_is_tried_again),
        T(the_newest_retired_names_are_kept),
        T(retired_names_survive_an_exec),
        T(a_silent_process_has_a_file),
        T(no_retired_name_is_kept),
        T(a_journal_without_bytes_writes_nothing),
        T(a_missing_folder_is_an_error),
        cmocka_unit_test(names_and_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
