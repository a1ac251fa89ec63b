# SPDX-License-Identifier: BSD-2-Clause
"""Samples of all rounds: collecting, sorting by distance, saving, and what can be said of
them."""

import json
import math

from plan import COPIES, Figure, limit

FORMAT = 2  # of the saved lines
ENOUGH = 10  # samples of a figure
STEADY = 0.15  # by so much the line may change around a sample
SCHEDULED = 5  # us: from here on a line is the time that other programs run

# How far apart the two processors are while a sample is taken: the bare line in us.
DISTANCES = {'near': 0.05, 'shared cache': 0.12, 'far': math.inf}


def quantile(values, q):
    """Linear between the neighbours; values must not be empty."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def median(values):
    return quantile(values, 0.5) if values else None


class Summary:
    """Median and quartiles."""

    def __init__(self, values):
        good = [v for v in values if v is not None and math.isfinite(v)]
        self.n = len(good)
        self.median = quantile(good, 0.5) if good else None
        self.low = quantile(good, 0.25) if good else None
        self.high = quantile(good, 0.75) if good else None

    def spread(self):
        """Half of the middle half, relative to the median."""
        if not self.median:
            return None
        return (self.high - self.low) / 2 / abs(self.median)


class Sample:
    """A value, the line just before and just after it, and the round."""

    def __init__(self, number, value, before, after):
        self.round, self.value, self.before, self.after = number, value, before, after

    def sorted(self):
        """Whether the line was measured beside it."""
        return self.before is not None and self.after is not None

    def line(self):
        return (self.before + self.after) / 2

    def steady(self):
        return not self.sorted() or (
            self.line() < SCHEDULED and
            abs(self.before - self.after) <= STEADY * min(self.before, self.after))

    def at(self, distance):
        """Counts at that distance: taken there, or without a line beside it."""
        if not self.sorted():
            return True
        return self.steady() and distance == next(
            name for name, most in DISTANCES.items() if self.line() < most)

    def saved(self):
        return [self.round, self.value, self.before, self.after]


def finite(v, digits=6):
    """For JSON, which has no NaN."""
    return float(f'{v:.{digits}g}') if v is not None and math.isfinite(v) else None


class Results:
    """All samples, by peer and figure; those of the bare machine by job."""

    def __init__(self, machine, peers, missing, figures):
        self.machine, self.peers, self.missing, self.figures = machine, peers, missing, figures
        self.samples = {}
        self.bare = {}
        self.lines = {}  # of line(), until another sample comes
        self.troubles = []
        self.nrounds = 0
        self.interrupted = False

    def add(self, peer, figure, found):
        """The samples of a figure in the round that is under way."""
        self.lines.clear()
        series = self.samples.setdefault(peer, {}).setdefault(figure.key, [])
        for value, before, after in found:
            if math.isfinite(value):
                series.append(Sample(self.nrounds, finite(value), finite(before, 4),
                                     finite(after, 4)))

    def add_bare(self, found):
        self.lines.clear()
        for job, samples in found.items():
            self.bare.setdefault(job, []).extend(
                Sample(self.nrounds, finite(v), finite(b, 4), finite(a, 4))
                for v, b, a in samples)

    def last(self, peer, figure):
        """The median of the round that is under way, or None."""
        return median([s.value for s in self.samples.get(peer, {}).get(figure.key, [])
                       if s.round == self.nrounds])

    def trouble(self, text):
        if text not in self.troubles:
            self.troubles.append(text)

    def everything(self):
        for figures in self.samples.values():
            for series in figures.values():
                yield from series
        for series in self.bare.values():
            yield from series

    def counts(self):
        """How many steady samples were taken at each distance."""
        counts = dict.fromkeys(DISTANCES, 0)
        for sample in self.everything():
            for distance in DISTANCES:
                counts[distance] += sample.sorted() and sample.at(distance)
        return counts

    def distance(self):
        """The one with most samples."""
        counts = self.counts()
        return max(counts, key=counts.get)

    def dropped(self):
        """The share of samples around which the line changed."""
        beside = [s for s in self.everything() if s.sorted()]
        return sum(not s.steady() for s in beside) / len(beside) if beside else 0.0

    def values(self, peer, figure, distance):
        if peer == 'limit':
            value = self.limit(figure, distance)
            return [] if value is None else [value]
        return [s.value for s in self.samples.get(peer, {}).get(figure.key, [])
                if s.at(distance)]

    def summary(self, peer, figure, distance):
        return Summary(self.values(peer, figure, distance))

    def line(self, distance):
        """The median of the bare line at that distance, or None."""
        if distance not in self.lines:
            self.lines[distance] = median([s.line() for s in self.everything()
                                           if s.sorted() and s.at(distance)])
        return self.lines[distance]

    def limit(self, figure, distance):
        bare = {job: median([s.value for s in samples if s.at(distance)])
                for job, samples in self.bare.items()
                if figure.test in ('rate', 'many') or job.partition(':')[0] in COPIES
                and job.endswith(f':{figure.row[0]}')}
        return limit(figure, self.line(distance), bare)

    def best(self, figure, distance):
        """The key of the best peer, without Tagwire."""
        if figure.test == 'mpi':
            return 'openmpi'
        medians = [(self.summary(p['key'], figure, distance).median, p['key'])
                   for p in self.peers if not p['key'].endswith('tagwire')]
        medians = [m for m in medians if m[0] is not None]
        if not medians:
            return None
        return (min if figure.less_is_better() else max)(medians)[1]

    @staticmethod
    def ours(figure):
        return {'mpi': 'openmpi-tagwire', 'onesided': 'libfabric-tagwire'}.get(figure.test,
                                                                                'tagwire')

    def ahead(self, figure, distance):
        """How often Tagwire is ahead of the best peer: each of its samples beside each of
        the peer's at that distance. Below 1: behind."""
        best = self.best(figure, distance)
        if figure.test == 'overlap' or best is None:
            return Summary([])
        ours = [v for v in self.values(self.ours(figure), figure, distance) if v > 0]
        theirs = [v for v in self.values(best, figure, distance) if v > 0]
        return Summary([t / o if figure.less_is_better() else o / t
                        for o in ours for t in theirs])

    def counted(self, figure, distance):
        """The number of samples at that distance of each peer that has any at all."""
        return [len(self.values(p['key'], figure, distance)) for p in self.peers
                if self.samples.get(p['key'], {}).get(figure.key)]

    def fewest(self, figure, distance):
        return min(self.counted(figure, distance), default=0)

    def fewest_shown(self, figure, distance):
        """Without the peers that have none at that distance: their cell is empty."""
        return min(filter(None, self.counted(figure, distance)), default=0)

    def thin(self, distance):
        """The figures without samples enough."""
        return [f for f in self.figures
                if any(self.samples.get(p['key'], {}).get(f.key) for p in self.peers)
                and self.fewest(f, distance) < ENOUGH]

    # Saved as one JSON object a line: the head, then one figure of one peer each, or one job
    # of the bare machine.

    def json_lines(self):
        yield json.dumps({
            'format': FORMAT, 'machine': self.machine, 'peers': self.peers,
            'missing': self.missing, 'troubles': self.troubles, 'rounds': self.nrounds,
            'distance': self.distance(), 'samples_at': self.counts(),
            'dropped_pct': finite(100 * self.dropped(), 3),
            'line_us': {d: finite(self.line(d), 4) for d in DISTANCES},
            'thin': [f.key for f in self.thin(self.distance())]})
        for figure in self.figures:
            for peer in self.peers:
                series = self.samples.get(peer['key'], {}).get(figure.key)
                if series:
                    yield json.dumps({'test': figure.test, 'row': list(figure.row),
                                      'peer': peer['key'], 'unit': figure.unit,
                                      'samples': [s.saved() for s in series]})
        for job, series in self.bare.items():
            yield json.dumps({'bare': job, 'samples': [s.saved() for s in series]})


def load(path):
    """Results that json_lines() has written. ValueError if the file is something else."""
    with open(path, encoding='utf-8') as f:
        rows = [json.loads(line) for line in f if line.strip()]
    if not rows or not isinstance(rows[0], dict) or rows[0].get('format') != FORMAT:
        raise ValueError('not saved by this mx_compare --json')
    head = rows[0]
    results = Results(head['machine'], head['peers'], head['missing'], [])
    results.troubles, results.nrounds = head['troubles'], head['rounds']
    seen = {}
    for row in rows[1:]:
        samples = [Sample(*s) for s in row['samples']]
        if 'bare' in row:
            results.bare[row['bare']] = samples
            continue
        figure = Figure(row['test'], tuple(row['row']), row['unit'], None, None)
        if figure.key not in seen:
            seen[figure.key] = figure
            results.figures.append(figure)
        results.samples.setdefault(row['peer'], {})[figure.key] = samples
    return results
