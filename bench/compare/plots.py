# SPDX-License-Identifier: BSD-2-Clause
"""Plots of the results by gnuplot, as SVG and PNG: every peer and the limit in each, at the
most frequent distance."""

import os
import shutil
import subprocess

from report import SHOWN

# name, test, what the rows must begin with, axis labels; the x axis is the last of a row.
PLOTS = (
    ('latency', 'latency', (), 'message size (bytes)', 'one-way latency (us)'),
    ('bandwidth', 'bandwidth', (), 'message size (bytes)', 'bandwidth (GB/s), window 16'),
    ('rate', 'rate', (8,), 'window', 'millions of 8-byte messages a second'),
    ('match-posted', 'match', ('posted', 'exact'), 'other receives posted', 'latency (us)'),
    ('match-unexpected', 'match', ('unexpected', 'exact'), 'unexpected messages',
     'latency (us)'),
    ('overlap', 'overlap', ('both',), 'message size (bytes)', '% hidden, both compute'),
    ('many', 'many', (), 'senders', 'millions of messages a second'),
)
COLOURS = {'tagwire': '#c01c28', 'openmpi': '#1a5fb4', 'mpich': '#26a269', 'ucx': '#e5a50a',
           'libfabric': '#813d9c', 'openmpi-tagwire': '#62a0ea',
           'libfabric-tagwire': '#dc8add', 'limit': '#77767b'}
TERMINALS = (('svg', 'svg size 720,480 dynamic font "sans,13" background "white"'),
             ('png', 'pngcairo size 1080,720 font "sans,16"'))


def points(results, peer, figures, distance):
    """Rows of x, median, low, high; a logarithmic axis has no zero: it is drawn at 0.5."""
    rows = []
    for figure in figures:
        s = results.summary(peer, figure, distance)
        if s.median is not None:
            scale = SHOWN.get(figure.unit, 1)
            rows.append(' '.join(f'{v:.8g}' for v in (figure.row[-1] or 0.5, s.median * scale,
                                                      s.low * scale, s.high * scale)))
    return rows


def script(results, plot, path, terminal, distance):
    name, test, begin, xlabel, ylabel = plot
    figures = [f for f in results.figures if f.test == test and f.row[:len(begin)] == begin]
    if len(figures) < 2:
        return None
    lines = [f'set terminal {terminal}', f'set output "{path}"', f'set xlabel "{xlabel}"',
             f'set ylabel "{ylabel}"', 'set grid', 'set logscale x 2', 'set format x "%.0s%c"',
             'set xtics rotate by -45' if test == 'latency' else '']
    if test == 'match':
        lines.append('set logscale x 10')
    if test in ('latency', 'bandwidth', 'overlap'):
        lines.append('set format x "%.0b%B"')
    lines.append('set yrange [*:110]' if test == 'overlap' else 'set logscale y 10')
    lines.append('set key ' + ('bottom right' if test in ('bandwidth', 'rate', 'overlap') else 'top left'))
    curves = []
    for key, title in [(p['key'], p['title']) for p in results.peers] + [('limit', 'limit')]:
        rows = points(results, key, figures, distance)
        if not rows:
            continue
        block = '$' + key.replace('-', '_')
        lines += [f'{block} << EOD', *rows, 'EOD']
        colour = COLOURS.get(key, '#000000')
        style = 'lines dashtype 2' if key == 'limit' else 'linespoints pointtype 7 pointsize 0.6'
        curves.append(f'{block} using 1:2 with {style} linewidth 2 linecolor "{colour}" '
                      f'title "{title}"')
        if key != 'limit':
            curves.append(f'{block} using 1:2:3:4 with yerrorbars pointtype 0 '
                          f'linecolor "{colour}" notitle')
    lines.append('plot ' + ', '.join(curves))
    return '\n'.join(lines) + '\n' if curves else None


def draw(results, directory):
    """Writes what there is to draw; the paths, and what went wrong or None."""
    if not shutil.which('gnuplot'):
        return [], 'no plots: gnuplot is missing (apt-get install gnuplot-nox)'
    os.makedirs(directory, exist_ok=True)
    distance = results.distance()
    paths = []
    for plot in PLOTS:
        for suffix, terminal in TERMINALS:
            path = os.path.join(directory, f'{plot[0]}.{suffix}')
            text = script(results, plot, path, terminal, distance)
            if text is None:
                continue
            done = subprocess.run(['gnuplot'], input=text, text=True, stderr=subprocess.PIPE,
                                  check=False)
            if done.returncode:
                return paths, 'gnuplot: ' + done.stderr.strip()
            paths.append(path)
    return paths, None
