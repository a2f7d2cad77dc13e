"""A strict reader of the Prometheus text format 0.0.4: what it does not understand is an error."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def parse(text):
    """(name, labels as a frozenset of pairs) → value. Families must be together, typed, explained, without repeats."""
    assert text.endswith("\n")
    samples, types, helps, closed, current = {}, {}, {}, set(), None
    for line in text.splitlines():
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            table = {"HELP": helps, "TYPE": types}[word]
            assert name not in table, f"{name} is declared twice"
            table[name] = rest
            if word == "TYPE":
                assert rest in SUFFIXES, line
                closed.add(current)
                current = name
                assert name not in closed, f"{name} is not in one block"
            continue
        found = SAMPLE.fullmatch(line)
        assert found, f"no sample: {line!r}"
        name, labels, value = found[1], found[2] or "", float(found[found.lastindex])
        assert current and name in [current + s for s in SUFFIXES[types[current]]], f"{name} in the family {current}"
        pairs = re.findall(LABEL, labels)
        assert len({k for k, _ in pairs}) == len(pairs), f"a label is given twice: {line}"
        key = (name, frozenset(pairs))
        assert key not in samples, f"given twice: {line}"
        assert value >= 0 or types[current] == "gauge", line
        samples[key] = value
    assert set(helps) == set(types)
    for name, kind in types.items():
        assert (kind == "counter") == name.endswith("_total"), f"the name of {kind} {name}"
        if kind == "histogram":
            _check_histogram(name, samples)
    return samples


def _check_histogram(name, samples):
    """Buckets rise, the last is +Inf and equals the count."""
    series = {}
    for (sample, labels), value in samples.items():
        if sample == f"{name}_bucket":
            rest = frozenset(p for p in labels if p[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for labels, buckets in series.items():
        values = [v for _, v in sorted(buckets)]
        assert values == sorted(values), f"{name}: buckets fall"
        assert max(buckets)[0] == float("inf")
        assert values[-1] == samples[f"{name}_count", labels]
        assert (f"{name}_sum", labels) in samples


def total(samples, name, **labels):
    """Sum over all series of that name that have these labels."""
    return sum(v for (n, pairs), v in samples.items() if n == name and set(labels.items()) <= pairs)
