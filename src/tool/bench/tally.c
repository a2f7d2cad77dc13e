#include "tool/bench/tally.h"

enum { UNKNOWN = 2 };

static void add_time(struct as_tally_times *t, as_ns v)
{
    t->min = t->h.n ? AS_MIN(t->min, v) : v;
    t->sum += (double)v;
    as_loghist_add(&t->h, v);
}

void as_tally_answer(struct as_tally *t, as_ns latency, uint32_t status, const char *text)
{
    if (status >= AS_TALLY_STATUSES)
        status = UNKNOWN;
    if (status == 0)
        add_time(&t->latency, latency);
    else
        add_time(&t->error_latency, latency);
    if (status && !t->text[status][0])
        snprintf(t->text[status], AS_TALLY_TEXT, "%s", text);
    t->status[status]++;
}

void as_tally_unanswered(struct as_tally *t, as_ns waited)
{
    t->unanswered++;
    add_time(&t->latency, waited);
}

void as_tally_unsent(struct as_tally *t, as_ns waited)
{
    t->unsent++;
    add_time(&t->latency, waited);
}

void as_tally_response(struct as_tally *t, bool first, as_ns ago)
{
    add_time(first ? &t->first : &t->between, ago);
}

uint64_t as_tally_failed(const struct as_tally *t)
{
    uint64_t n = 0;

    for (uint32_t i = 1; i < AS_TALLY_STATUSES; i++)
        n += t->status[i];
    return n;
}

uint64_t as_tally_due(const struct as_tally *t)
{
    return t->status[0] + as_tally_failed(t) + t->unanswered + t->unsent;
}

double as_tally_mean(const struct as_tally_times *t)
{
    return t->h.n ? t->sum / (double)t->h.n : 0;
}
