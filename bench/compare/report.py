# SPDX-License-Identifier: BSD-2-Clause
"""Results as tables for people, as Markdown and as CSV."""

import csv
import textwrap

from plan import K, M, ROWS, TESTS, TITLES
from results import DISTANCES, ENOUGH

UNITS = {'us': 'us', 'ms': 'ms', 'msg_s': 'millions a second', 'mb_s': 'GB/s', 'pct': '%',
         'kib': 'KiB'}
SHOWN = {'msg_s': 1e-6, 'mb_s': 1e-3}  # factors of what tables show

# README's table: the rows that matter most, and only the other libraries.
HEADLINES = (
    ('latency', (8,), 'one-way latency, 8 B'),
    ('latency', (16 * K,), 'one-way latency, 16 KiB'),
    ('latency', (M,), 'one-way latency, 1 MiB'),
    ('fresh', (M,), 'one-way latency, 1 MiB, written before each send'),
    ('rate', (8, 64), 'messages a second, 8 B, window 64'),
    ('bandwidth', (M,), 'bandwidth, 1 MiB, window 16'),
    ('match', ('posted', 'exact', 10000), 'one-way latency, 8 B, 10,000 other receives posted'),
    ('many', (16,), 'messages a second, 8 B, 16 senders to one receiver'),
    ('overlap', ('both', M), 'overlap, 1 MiB, while both ends compute'),
    ('connect', ('open, connect, first reply',), 'open the library, connect, first reply'),
    ('memory', ('each further peer',), 'memory for each further peer'),
)


def size_text(size):
    for unit, name in ((M, 'M'), (K, 'K')):
        if size >= unit and size % unit == 0:
            return f'{size // unit}{name}'
    return str(size)


def row_texts(figure):
    return [size_text(part) if heading == 'bytes' else str(part)
            for heading, part in zip(ROWS[figure.test], figure.row)]


def number(value):
    """Three digits that matter."""
    if value is None:
        return '-'
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f'{value:.{digits}f}'
    return f'{value:.3f}'


def shown(figure, summary):
    """A cell: the median and how far the middle half of the samples is from it."""
    if summary.median is None:
        return '-'
    text = number(summary.median * SHOWN.get(figure.unit, 1))
    spread = summary.spread()
    if figure.unit == 'pct':
        return str(round(summary.median))
    return text if summary.n < 2 or spread is None else f'{text} ±{100 * spread:.0f}%'


def ahead_text(results, figure, distance):
    ahead = results.ahead(figure, distance)
    if ahead.median is None:
        return '-'
    return f'{number(ahead.median)} [{number(ahead.low)}, {number(ahead.high)}]'


def columns(rows):
    """Aligned text: the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return '\n'.join('  '.join(cell.rjust(width) for cell, width in zip(row, widths))
                     for row in rows)


def table(results, test, distance):
    figures = [f for f in results.figures if f.test == test]
    units = {f.unit for f in figures}
    title = TITLES[test] + (f', in {UNITS[units.pop()]}' if len(units) == 1 else '')
    peers = [p for p in results.peers
             if any(results.samples.get(p['key'], {}).get(f.key) for f in figures)]
    rows = [[*ROWS[test], *[p['title'] for p in peers], 'limit', 'ahead', 'samples']]
    for figure in figures:
        unit = f' ({UNITS[figure.unit]})' if units else ''
        names = row_texts(figure)
        names[-1] += unit
        rows.append([*names, *[shown(figure, results.summary(p['key'], figure, distance))
                               for p in peers],
                     shown(figure, results.summary('limit', figure, distance)),
                     ahead_text(results, figure, distance),
                     str(results.fewest_shown(figure, distance))])
    return f'{title}\n{columns(rows)}\n'


def heading(results):
    """The machine and who took part, with versions and settings."""
    m = results.machine
    lines = [f"{m['processor']}, {m['cpus']} processors, {m['system']}; {m['date']}; "
             f"{results.nrounds} rounds, processes bound to processors {m['bound']}"]
    for p in results.peers:
        lines.append(f"{p['title']}: {p['version']}; {p['settings']}")
    for key, why in results.missing.items():
        lines.append(f'not here: {key}: {why}')
    return '\n'.join(lines)


def distance_text(results, distance):
    """What the bare line says about the processors."""
    counts = results.counts()
    line = results.line(distance)
    others = ', '.join(f'{d} {counts[d]}' for d in DISTANCES if d != distance)
    if line is None:
        return f'{distance}: no samples ({others})'
    return (f'{distance}: a bare cache line takes {line:.3f} us one way; {counts[distance]} '
            f'samples ({others}; dropped, as the line changed: {100 * results.dropped():.0f}%)')


EXPLAINED = f'''Medians; +-: half of the middle half of the samples. Each sample was taken between two
measurements of the bare cache line on the same processors, which say how far apart these were.
Limit: the bare line and the fastest bare copy, by one processor or by both. Ahead: how many times
Tagwire is better than the best of the others at that distance [the middle half of the ratios of
their samples]; below 1 it is behind. Samples: of the library that has fewest, without one that
has none (-); below {ENOUGH} a row says little.'''


def plain(results, distance):
    parts = [heading(results), '']
    for d in DISTANCES if distance == 'all' else [distance]:
        parts += [distance_text(results, d), '']
        parts += [table(results, test, d) for test in TESTS
                  if any(f.test == test for f in results.figures)]
    parts.append(EXPLAINED)
    parts += [f'trouble: {t}' for t in results.troubles]
    return '\n'.join(parts) + '\n'


def behind_text(results, figure, distance):
    """By how much Tagwire is behind the best of the others; empty if it is not."""
    if figure.test != 'overlap':
        ahead = results.ahead(figure, distance).median
        return '' if ahead is None or ahead >= 1 else number(ahead)
    # No ratio: these may be below 0.
    best = results.best(figure, distance)
    both = [results.summary(key, figure, distance).median for key in (results.ours(figure), best)]
    if None in both:
        return ''
    ours, theirs = map(round, both)
    return '' if ours >= theirs else f'{ours}% against {theirs}%'


def filled(*sentences):
    return textwrap.fill(' '.join(sentences), 100, break_on_hyphens=False)


OVERLAP = 'Overlap = (t_comm + t_compute - t_both) / t_comm.'
OVERLAP_READ = '''At each end that computes, t_compute is four times t_comm. 100%: the whole transfer is
hidden. 0%: none of it. Negative: computing first and transferring afterwards is faster. Above 100%:
noise, or a transfer that alone is slower than beside the computation.'''


def setting(results, distance):
    """Where and when it was measured."""
    m = results.machine
    line = results.line(distance)
    return (f"{m['processor']}, {m['cpus']} processors"
            + (f', at the distance "{distance}"' if line else '')
            + f"; {m['system']}; each process bound to a processor; medians of "
            f"{results.nrounds} interleaved rounds, {m['date'][:10]}.")


def line_text(results, distance):
    line = results.line(distance)
    return f'One bare cache line takes {line:.3f} us one way: no software takes much less.' \
        if line else ''


def markdown_row(cells):
    return f"| {' | '.join(cells)} |"


def markdown_head(cells):
    return [markdown_row(cells), '|---' * len(cells) + '|']


def markdown(results):
    """README's table: Tagwire and the other libraries."""
    distance = results.distance()
    peers = [p for p in results.peers
             if p['key'] == 'tagwire' or not p['key'].endswith('tagwire')]
    out = [filled('Two processes of one host:', setting(results, distance),
                  line_text(results, distance),
                  '*Ahead*: the best other library divided by Tagwire, for rates and bandwidth the '
                  'inverse; above 1, Tagwire is better.'), '',
           *markdown_head(['', *[p['title'] for p in peers], 'ahead'])]
    found = {(f.test, f.row): f for f in results.figures}
    behind = []
    for test, row, text in HEADLINES:
        figure = found.get((test, row))
        if figure is None or results.fewest(figure, distance) < ENOUGH:
            continue
        unit = {'msg_s': ' M/s', 'pct': '%'}.get(figure.unit, ' ' + UNITS[figure.unit])
        cells = [text]
        for p in peers:
            s = results.summary(p['key'], figure, distance)
            cells.append('' if s.median is None else shown(figure, type(s)([s.median])) + unit)
        ahead = results.ahead(figure, distance).median
        out.append(markdown_row([*cells, '-' if ahead is None else number(ahead)]))
        by = behind_text(results, figure, distance)
        if by:
            behind.append(f'{text} ({by})')
    out += ['', filled('Tagwire is behind in these rows: ' + '; '.join(behind) + '.' if behind else
                       'Tagwire is behind in none of these rows.',
                       *((OVERLAP, 'Below 0, computing first and transferring afterwards is faster.')
                         if any('overlap' in row for row in out) else ()))]
    return '\n'.join(out) + '\n'


def markdown_table(results, test, distance):
    """All rows of a test."""
    figures = [f for f in results.figures if f.test == test]
    units = {f.unit for f in figures}
    common = UNITS[next(iter(units))] if len(units) == 1 else None
    peers = [p for p in results.peers
             if any(results.samples.get(p['key'], {}).get(f.key) for f in figures)]
    out = [f'### {TITLES[test]}' + (f', in {common}' if common else ''), '',
           *markdown_head([*ROWS[test], *[p['title'] for p in peers], 'limit', 'ahead',
                           'samples'])]
    for figure in figures:
        names = row_texts(figure)
        names[-1] += '' if common else f' ({UNITS[figure.unit]})'
        out.append(markdown_row([
            *names, *[shown(figure, results.summary(p['key'], figure, distance)) for p in peers],
            shown(figure, results.summary('limit', figure, distance)),
            ahead_text(results, figure, distance), str(results.fewest_shown(figure, distance))]))
    return [*out, '']


def markdown_all(results):
    """The tables of doc/performance.md, and the rows in which Tagwire is behind."""
    distance = results.distance()
    out = [filled(setting(results, distance), line_text(results, distance)), '',
           *markdown_head(['library', 'version', 'settings']),
           *[markdown_row([p['title'], p['version'], p['settings']]) for p in results.peers], '']
    for test in TESTS:
        if any(f.test == test for f in results.figures):
            out += markdown_table(results, test, distance)
            if test == 'overlap':
                out += [filled(OVERLAP, OVERLAP_READ), '']
    behind = [(' '.join([f.test, *row_texts(f)]), behind_text(results, f, distance))
              for f in results.figures]
    behind = [f'* {text}: {by}' for text, by in behind if by]
    out += ['### Rows in which Tagwire is behind', '', *(behind or ['None.'])]
    return '\n'.join(out) + '\n'


def write_csv(results, stream):
    out = csv.writer(stream, lineterminator='\n')
    out.writerow(['test', 'row', 'unit', 'distance', 'peer', 'median', 'low', 'high', 'samples'])
    for figure in results.figures:
        for distance in DISTANCES:
            for peer in [p['key'] for p in results.peers] + ['limit']:
                s = results.summary(peer, figure, distance)
                if s.n:
                    out.writerow([figure.test, ' '.join(map(str, figure.row)), figure.unit,
                                  distance, peer, f'{s.median:.6g}', f'{s.low:.6g}',
                                  f'{s.high:.6g}', s.n])
