/* Specification of tool/simulate/pattern and quantity: generated load has the distribution that its
 * text says. */
#include "tool/simulate/pattern.h"
#include "tool/simulate/quantity.h"

#include "unit.h"

#include <math.h>

#define DRAWS 200000u

static struct as_service_pattern service(const char *text)
{
    struct as_service_pattern p;
    struct as_buf err = {0};

    assert_int_equal(as_service_pattern_parse(&p, as_str_of(text), &err), 0);
    return p;
}

static struct as_arrival_pattern arrivals(const char *text)
{
    struct as_arrival_pattern p;
    struct as_buf err = {0};

    assert_int_equal(as_arrival_pattern_parse(&p, as_str_of(text), &err), 0);
    return p;
}

static void numbers_are_exact(void **state AS_UNUSED)
{
    static const struct {
        const char *text;
        uint64_t unit;
        int rc;
        uint64_t v;
    } rows[] = {
        {"0", 1000, 0, 0},
        {"1", 1000, 0, 1000},
        {"0.0005", 1000, 0, 1},
        {"0.00049", 1000, 0, 0},
        {"1.", 1000, 0, 1000},
        {".5", 1000, 0, 500},
        {"1e3", 1, 0, 1000},
        {"1E-3", 1000, 0, 1},
        {"1e+2", 1, 0, 100},
        {"000001", 1, 0, 1},
        {"1000000", 1, 0, 1000000},
        {"1000001", 1, AS_ETOOBIG, 0},
        {"1e300", 1, AS_ETOOBIG, 0},
        {"0e300", 1, 0, 0},
        {"1e-300", 1, 0, 0},
        {"", 1, AS_EINVALID, 0},
        {".", 1, AS_EINVALID, 0},
        {"1e", 1, AS_EINVALID, 0},
        {"1e+", 1, AS_EINVALID, 0},
        {"-1", 1, AS_EINVALID, 0},
        {"+1", 1, AS_EINVALID, 0},
        {"1.2.3", 1, AS_EINVALID, 0},
        {"nan", 1, AS_EINVALID, 0},
        {"1 ", 1, AS_EINVALID, 0},
        {"9999999999999999999999", 1, AS_ETOOBIG, 0},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        uint64_t v = 0;
        int rc = as_quantity_read(as_str_of(rows[i].text), rows[i].unit, 1000000, &v);

        if (rc != rows[i].rc || (rc == 0 && v != rows[i].v))
            fail_msg("'%s': %d %llu", rows[i].text, rc, (unsigned long long)v);
    }
}

static void durations_have_units(void **state AS_UNUSED)
{
    as_ns ns;

    assert_int_equal(as_quantity_duration(AS_STR("1.5ms"), AS_SEC, &ns), 0);
    assert_int_equal(ns, 1500 * AS_US);
    assert_int_equal(as_quantity_duration(AS_STR("1"), AS_SEC, &ns), 0);
    assert_int_equal(ns, AS_SEC);
    assert_int_equal(as_quantity_duration(AS_STR("1.000000001s"), AS_SEC, &ns), AS_ETOOBIG);
    assert_int_equal(as_quantity_duration(AS_STR("ms"), AS_SEC, &ns), AS_EINVALID);
    assert_int_equal(as_quantity_duration(AS_STR("1d"), AS_SEC, &ns), AS_EINVALID);
}

static void service_times_have_their_mean_and_variation(void **state AS_UNUSED)
{
    static const struct {
        const char *text;
        double mean, cv;
    } rows[] = {{"constant:10ms", 1e7, 0},
                {"exponential:10ms", 1e7, 1},
                {"lognormal:10ms:0.5", 1e7, 0.5},
                {"lognormal:2s:1", 2e9, 1}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_service_pattern p = service(rows[i].text);
        struct as_rand rand = {i + 1};
        double sum = 0, squares = 0, mean, cv;

        for (uint32_t k = 0; k < DRAWS; k++) {
            double v = (double)as_service_pattern_draw(&p, &rand);

            sum += v;
            squares += v * v;
        }
        mean = sum / DRAWS;
        cv = sqrt(fmax(squares / DRAWS - mean * mean, 0)) / mean;
        assert_true(fabs(mean / rows[i].mean - 1) < 0.01);
        assert_true(fabs(cv - rows[i].cv) < 0.05);
    }
}

/* Arrivals before each of the times. */
static void count(struct as_arrival_pattern *p, const as_ns *ends, uint32_t *ret_n, uint32_t n)
{
    struct as_rand rand = {7};
    as_ns last = 0;

    memset(ret_n, 0, n * sizeof(ret_n[0]));
    for (;;) {
        as_ns at = as_arrival_pattern_next(p, &rand);
        uint32_t i = 0;

        assert_true(at >= last);
        while (i < n && at >= ends[i])
            i++;
        if (i == n)
            return;
        ret_n[i]++;
        last = at;
    }
}

static bool is_near(uint32_t n, double expected) /* within five standard deviations */
{
    return fabs(n - expected) < 5 * sqrt(expected);
}

static void arrivals_have_their_rates(void **state AS_UNUSED)
{
    const as_ns ends[] = {100 * AS_SEC, 200 * AS_SEC, 300 * AS_SEC};
    struct as_arrival_pattern p = arrivals("constant:3");
    uint32_t n[3];

    count(&p, ends, n, 3);
    assert_int_equal(n[0], 300);
    assert_int_equal(n[2], 300);
    p = arrivals("poisson:200");
    count(&p, ends, n, 3);
    assert_true(is_near(n[0], 20000) && is_near(n[2], 20000) && n[0] != n[2]);
    p = arrivals("steps:10@100s,0@100s,300@100s");
    count(&p, ends, n, 3);
    assert_true(is_near(n[0], 1000) && n[1] == 0 && is_near(n[2], 30000));
    /* the first half of a period lies above the middle: 30 ± 20 / (π/2) */
    p = arrivals("sine:10:50:200s");
    count(&p, ends, n, 2);
    assert_true(is_near(n[0], 3000 + 2000 / M_PI_2) && is_near(n[1], 3000 - 2000 / M_PI_2));
}

static void steps_end(void **state AS_UNUSED)
{
    struct as_arrival_pattern p = arrivals("steps:1000@1s");
    struct as_rand rand = {1};
    as_ns at = 0;
    uint32_t n = 0;

    while ((at = as_arrival_pattern_next(&p, &rand)) != AS_NEVER) {
        assert_true(at < AS_SEC);
        n++;
    }
    assert_true(is_near(n, 1000));
}

static void times_are_bounded(void **state AS_UNUSED)
{
    static const char *const rare[] = {"constant:0.000001", "poisson:0.000001"};

    for (size_t i = 0; i < AS_COUNT(rare); i++) {
        struct as_arrival_pattern p = arrivals(rare[i]);
        struct as_rand rand = {1};
        as_ns last = 0, at;

        while ((at = as_arrival_pattern_next(&p, &rand)) != AS_NEVER) {
            assert_true(at >= last && at <= AS_PATTERN_ARRIVAL_MAX);
            last = at;
        }
        assert_true(last > AS_PATTERN_ARRIVAL_MAX / 2);
    }
}

static void a_wrong_pattern_is_refused(void **state AS_UNUSED)
{
    static const char *const of_service[] = {"",
                                             "10ms",
                                             "constant",
                                             "constant:",
                                             "constant:x",
                                             "normal:1ms",
                                             "constant:1:1",
                                             "lognormal:1ms",
                                             "lognormal:1ms:-1",
                                             "lognormal:1ms:101",
                                             "constant:25h",
                                             "exponential:1ms:2"};
    static const char *const of_arrivals[] = {"",
                                              "poisson",
                                              "poisson:0",
                                              "poisson:1000001",
                                              "steps:",
                                              "steps:1",
                                              "steps:1@",
                                              "steps:0@1s",
                                              "sine:1:2",
                                              "sine:2:1:1s",
                                              "sine:1:2:0s",
                                              "constant:nan",
                                              "poisson:1:2",
                                              "steps:1@1s,,2@1s"};
    struct as_service_pattern s;
    struct as_arrival_pattern a;
    struct as_buf err = {0};

    for (size_t i = 0; i < AS_COUNT(of_service); i++) {
        err.n = 0;
        assert_int_equal(as_service_pattern_parse(&s, as_str_of(of_service[i]), &err), AS_EINVALID);
        assert_true(err.n > 0);
    }
    for (size_t i = 0; i < AS_COUNT(of_arrivals); i++) {
        err.n = 0;
        assert_int_equal(as_arrival_pattern_parse(&a, as_str_of(of_arrivals[i]), &err),
                         AS_EINVALID);
        assert_true(err.n > 0);
    }
    as_buf_fini(&err);
}

static void steps_are_bounded(void **state AS_UNUSED)
{
    struct as_buf text = {0}, err = {0};
    struct as_arrival_pattern p;

    as_buf_str(&text, "steps:1@1s");
    for (uint32_t i = 1; i < AS_PATTERN_STEPS; i++)
        as_buf_str(&text, ",1@1s");
    assert_int_equal(as_arrival_pattern_parse(&p, as_buf_slice(&text), &err), 0);
    as_buf_str(&text, ",1@1s");
    assert_int_equal(as_arrival_pattern_parse(&p, as_buf_slice(&text), &err), AS_EINVALID);
    as_buf_fini(&text);
    as_buf_fini(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(service_times_have_their_mean_and_variation),
        cmocka_unit_test(arrivals_have_their_rates),
        cmocka_unit_test(steps_end),
        cmocka_unit_test(times_are_bounded),
        cmocka_unit_test(a_wrong_pattern_is_refused),
        cmocka_unit_test(steps_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
