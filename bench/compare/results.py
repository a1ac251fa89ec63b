# SPDX-License-Identifier: BSD-2-Clause
"""Figures of all rounds: collecting, saving, and what can be said of them."""

import json
import math

from plan import Figure, limit

FORMAT = 1  # of the saved lines
NOISY = 0.25  # spread of the bare line from which a comparison says little


def quantile(values, q):
    """Linear between the neighbours; values must not be empty."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


class Summary:
    """Median and quartiles of what was measured in some rounds."""

    def __init__(self, values):
        self.values = values
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


class Results:
    """All figures: rounds[peer key][figure key] is a list with one value for each round."""

    def __init__(self, machine, peers, missing, figures):
        self.machine, self.peers, self.missing, self.figures = machine, peers, missing, figures
        self.rounds = {}
        self.lines, self.copies = [], []  # bare, beside every run
        self.troubles = []
        self.nrounds = 0

    def add(self, peer, figure, value):
        series = self.rounds.setdefault(peer, {}).setdefault(figure.key, [])
        series.extend([None] * (self.nrounds - len(series)))
        series.append(value)

    def last(self, peer, figure):
        """Of the round that is under way."""
        series = self.rounds.get(peer, {}).get(figure.key, [])
        return series[-1] if len(series) > self.nrounds else None

    def summary(self, peer, figure):
        return Summary(self.rounds.get(peer, {}).get(figure.key, []))

    def add_bare(self, found):
        self.lines.append(found.get('line'))
        self.copies.append(found.get('copy:65536'))

    def trouble(self, text):
        if text not in self.troubles:
            self.troubles.append(text)

    def add_limits(self, bares):
        """The limits of this round, from the medians of what was seen beside its runs."""
        jobs = {job for found in bares for job in found if job != 'version'}
        bare = {job: quantile([b[job] for b in bares if job in b], 0.5) for job in jobs}
        for figure in self.figures:
            self.add('limit', figure, limit(figure, bare))

    def best(self, figure):
        """The key of the best peer, without Tagwire."""
        medians = [(self.summary(p['key'], figure).median, p['key']) for p in self.peers
                   if p['key'] != 'tagwire']
        medians = [m for m in medians if m[0] is not None]
        if not medians:
            return None
        return (min if figure.less_is_better() else max)(medians)[1]

    def ahead(self, figure):
        """How often Tagwire is ahead of the best peer, round by round; below 1: behind."""
        best = self.best(figure)
        if figure.test == 'overlap' or best is None:
            return Summary([])
        ratios = []
        for ours, theirs in zip(self.rounds.get('tagwire', {}).get(figure.key, []),
                                self.rounds[best][figure.key]):
            if ours and theirs and min(ours, theirs) > 0:
                ratios.append(theirs / ours if figure.less_is_better() else ours / theirs)
        return Summary(ratios)

    def noise(self):
        """Relative distance of the 10th and the 90th percentile, of the bare line and copy."""
        spreads = []
        for values in (self.lines, self.copies):
            values = [v for v in values if v]
            spreads.append((quantile(values, 0.9) - quantile(values, 0.1)) / quantile(values, 0.5)
                           if values else math.inf)
        return spreads

    def noisy(self):
        return max(self.noise()) > NOISY

    # Saved as one JSON object a line: the head, then one figure of one peer each.

    def json_lines(self):
        line, copy = self.noise()
        yield json.dumps({
            'format': FORMAT, 'machine': self.machine, 'peers': self.peers,
            'missing': self.missing, 'troubles': self.troubles, 'rounds': self.nrounds,
            'line_us': self.lines, 'copy_mb_s': self.copies,
            'line_spread_pct': finite(100 * line), 'copy_spread_pct': finite(100 * copy),
            'noisy': self.noisy()})
        for figure in self.figures:
            for peer in [p['key'] for p in self.peers] + ['limit']:
                s = self.summary(peer, figure)
                if s.n:
                    yield json.dumps({
                        'test': figure.test, 'row': list(figure.row), 'peer': peer,
                        figure.unit: s.median, f'{figure.unit}_low': s.low,
                        f'{figure.unit}_high': s.high, f'{figure.unit}_rounds': s.values})


def finite(v):
    return round(v, 1) if math.isfinite(v) else None


def load(path):
    """Results that json_lines() has written. ValueError if the file is something else."""
    with open(path, encoding='utf-8') as f:
        rows = [json.loads(line) for line in f if line.strip()]
    if not rows or not isinstance(rows[0], dict) or rows[0].get('format') != FORMAT:
        raise ValueError('not saved by mx_compare --json')
    head = rows[0]
    results = Results(head['machine'], head['peers'], head['missing'], [])
    results.troubles, results.nrounds = head['troubles'], head['rounds']
    results.lines, results.copies = head['line_us'], head['copy_mb_s']
    seen = {}
    for row in rows[1:]:
        unit = next(key[:-7] for key in row if key.endswith('_rounds'))
        figure = Figure(row['test'], tuple(row['row']), unit, None, None)
        if figure.key not in seen:
            seen[figure.key] = figure
            results.figures.append(figure)
        results.rounds.setdefault(row['peer'], {})[figure.key] = row[f'{unit}_rounds']
    return results
