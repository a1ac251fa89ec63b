# SPDX-License-Identifier: BSD-2-Clause
"""What is measured: figures, and the driver runs that give them."""

K, M = 1 << 10, 1 << 20

TESTS = ('latency', 'rate', 'bandwidth', 'match', 'overlap', 'many', 'connect', 'memory')

TITLES = {
    'latency': 'Latency, one way',
    'rate': 'Message rate',
    'bandwidth': 'Bandwidth, window 16',
    'match': 'Matching: latency of 8 bytes beside others in the queues',
    'overlap': 'Overlap: share of a transfer that hides behind computing',
    'many': 'Many to one: 8 bytes, window 64 for each sender',
    'connect': 'Connecting',
    'memory': 'Memory resident in the process that all others connect to',
}

# The heading of what tells the rows of a test apart, and whether less is better.
ROWS = {
    'latency': ('bytes',),
    'rate': ('bytes', 'window'),
    'bandwidth': ('bytes',),
    'match': ('queue', 'from', 'others'),
    'overlap': ('computes', 'bytes'),
    'many': ('senders',),
    'connect': ('what',),
    'memory': ('what',),
}
LESS = ('latency', 'match', 'connect', 'memory')

# Of the full run and of --quick.
SIZES = ([0, 1, 8, 64, 256, K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 128 * K, 256 * K, 512 * K,
          M, 4 * M, 16 * M],
         [0, 8, K, 4 * K, 16 * K, 64 * K, 256 * K, M])
RATES = ([(size, window) for size in (8, 64, K) for window in (1, 4, 16, 64, 256)],
         [(8, 1), (8, 64)])
BANDWIDTHS = ([4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M], [64 * K, M])
DEPTHS = ([0, 100, 1000, 10000, 100000], [0, 1000])
OVERLAPS = ([4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M], [64 * K, M])
SENDERS = ([2, 4, 8, 16], [2, 4])
UNEXPECTED_BYTES = 256  # room for each short message that waits


class Figure:
    """One row of a table: where it comes from and how it reads."""

    def __init__(self, test, row, unit, run, job, scale=1.0, base=None):
        self.test, self.row, self.unit = test, row, unit
        self.run, self.job, self.scale = run, job, scale
        self.base = base  # what this is counted from: a figure of an earlier run
        self.key = ':'.join(str(part) for part in (test,) + row)

    def less_is_better(self):
        return self.test in LESS


class Run:
    """One start of a driver: so many ranks, these jobs."""

    def __init__(self, ranks, unexpected=0):
        self.ranks, self.unexpected = ranks, unexpected
        self.jobs = []

    def add(self, job):
        if job not in self.jobs:
            self.jobs.append(job)


def figures_of(test, quick, runs):
    """The figures of one test; adds the jobs to the runs."""
    pair = runs['pair']
    found = []

    def figure(*args, **more):
        found.append(Figure(test, *args, **more))
        found[-1].run.add(found[-1].job)
        return found[-1]

    def run_of(ranks):
        return runs.setdefault(ranks, Run(ranks))

    if test == 'latency':
        for size in SIZES[quick]:
            figure((size,), 'us', pair, f'latency:{size}')
    elif test == 'rate':
        for size, window in RATES[quick]:
            figure((size, window), 'msg_s', pair, f'rate:{size}:{window}')
    elif test == 'bandwidth':
        for size in BANDWIDTHS[quick]:
            figure((size,), 'mb_s', pair, f'rate:{size}:16', size / 1e6)
    elif test == 'match':
        deep = runs.setdefault('match', Run(2, 4 * M + max(DEPTHS[quick]) * UNEXPECTED_BYTES))
        for queue in ('posted', 'unexpected'):
            for source in ('exact', 'any'):
                for depth in DEPTHS[quick]:
                    figure((queue, source, depth), 'us', deep, f'match:{queue}:{source}:{depth}')
    elif test == 'overlap':
        for who in ('sender', 'receiver', 'both'):
            for size in OVERLAPS[quick]:
                figure((who, size), 'pct', pair, f'overlap:{who}:{size}')
    elif test == 'many':
        for senders in SENDERS[quick]:
            figure((senders,), 'msg_s', run_of(senders + 1), 'many:8:64')
    elif test == 'connect':
        figure(('open, connect, first answer',), 'ms', pair, 'ready')
        figure(('connect, first answer',), 'us', pair, 'connect')
    elif test == 'memory':
        most = max(SENDERS[quick])
        figure(('with one peer',), 'kib', pair, 'memory')
        one = figure(('its state with one peer',), 'kib', pair, 'state')
        figure(('each further peer',), 'kib', run_of(most + 1), 'state', 1 / (most - 1), one)
    return found


def plan(only, quick):
    """All figures and all runs of one round."""
    runs = {'pair': Run(2)}
    figures = [f for test in TESTS if test in only for f in figures_of(test, quick, runs)]
    return figures, [run for run in runs.values() if run.jobs]


def bare_jobs(figures):
    """What the machine itself is asked, for the limits; the line stands beside each sample."""
    sizes = sorted({f.row[0] for f in figures if f.test in ('latency', 'bandwidth')} - {0} |
                   {64 * K})
    return ['stream'] + [f'{way}:{size}' for size in sizes for way in COPIES]


# The ways to copy without a library: by one processor, and two ways by both.
COPIES = ('copy', 'pipe', 'halves')


def limit(figure, line, bare):
    """What no library should beat, from the bare line and the bare jobs; None where there
    is none."""
    size = figure.row[0]
    try:
        if figure.test == 'latency':
            return line + (size / max(bare[f'{way}:{size}'] for way in COPIES) if size else 0)
        if figure.test == 'bandwidth':
            return max(bare[f'{way}:{size}'] for way in COPIES)
        if figure.test == 'match':
            return line
        if figure.test in ('rate', 'many'):
            return bare['stream']
        if figure.test == 'overlap':
            return 100.0
    except (KeyError, TypeError):
        pass
    return None
