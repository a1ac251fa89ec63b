# SPDX-License-Identifier: BSD-2-Clause
"""What is measured: figures, and the driver runs that give them."""

K, M = 1 << 10, 1 << 20

TESTS = ('latency', 'fresh', 'rate', 'bandwidth', 'exchange', 'bidirectional', 'ring', 'alltoall',
         'crowded', 'mpi', 'onesided', 'match', 'overlap', 'many', 'connect', 'memory')

TITLES = {
    'latency': 'Latency, one way',
    'fresh': 'Latency, one way, of data written before each send and read after each receive',
    'rate': 'Message rate',
    'bandwidth': 'Bandwidth, window 16',
    'exchange': 'Exchange: both ends send and receive one message',
    'bidirectional': 'Bandwidth of both directions together, window 16 each',
    'ring': 'Ring: each process sends to the next',
    'alltoall': 'All to all: each process sends to each other',
    'crowded': 'The same on two processors, each process computing 50 us before each turn',
    'mpi': 'Calls of MPI: ahead is Open MPI over Tagwire beside Open MPI itself',
    'onesided': 'One-sided calls, until they are complete at the other end: ahead is libfabric over '
                'Tagwire',
    'match': 'Matching: latency of 8 bytes with other entries in the queue',
    'overlap': 'Overlap: share of the transfer time hidden behind computation',
    'many': 'Many to one: 8 bytes, window 64 for each sender',
    'connect': 'Connecting',
    'memory': 'Resident memory of a process to which all others connect',
}

# The heading of what tells the rows of a test apart, and whether less is better.
ROWS = {
    'latency': ('bytes',),
    'fresh': ('bytes',),
    'rate': ('bytes', 'window'),
    'bandwidth': ('bytes',),
    'exchange': ('data', 'bytes'),
    'bidirectional': ('bytes',),
    'ring': ('processes', 'data', 'bytes'),
    'alltoall': ('processes', 'data', 'bytes'),
    'crowded': ('pattern', 'processes', 'bytes'),
    'mpi': ('call', 'processes', 'bytes'),
    'onesided': ('call', 'window', 'data', 'bytes'),
    'match': ('queue', 'from', 'others'),
    'overlap': ('computes', 'bytes'),
    'many': ('senders',),
    'connect': ('what',),
    'memory': ('what',),
}
LESS = ('latency', 'fresh', 'exchange', 'ring', 'alltoall', 'crowded', 'mpi', 'onesided', 'match',
        'connect', 'memory')

# Of the full run and of --quick.
SIZES = ([0, 1, 8, 64, 256, K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 128 * K, 256 * K, 512 * K,
          M, 4 * M, 16 * M],
         [0, 8, K, 4 * K, 16 * K, 64 * K, 256 * K, M])
RATES = ([(size, window) for size in (8, 64, K, 2 * K, 4 * K) for window in (1, 4, 16, 64, 256)],
         [(8, 1), (8, 64)])
BANDWIDTHS = ([4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M], [64 * K, M])
EXCHANGES = ([8, 64, K, 2 * K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M],
             [8, K, 16 * K, 64 * K, M])
RINGS = ([8, K, 4 * K, 16 * K, 64 * K, M], [8, 16 * K])
CALLS = ('PingPong', 'PingPing', 'Sendrecv', 'Exchange', 'Allreduce', 'Bcast', 'Alltoall',
         'Allgather', 'Reduce_scatter')
CALL_SIZES = ([8, 64, K, 4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M], [8, 16 * K])
CALLERS = ([2, 4], [2])
DATA = (('stale', 'fresh'), ('stale',))
PROCESSES = ([4, 8], [4])
CALLS_ONE_SIDED = ('put', 'get')
ONE_SIDED = ([8, 64, K, 4 * K, 64 * K, 256 * K, M, 4 * M], [8, 64 * K])
WINDOWS_ONE_SIDED = ([1, 16], [1])
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

    def __init__(self, ranks, unexpected=0, mesh=False, processors=None, one_sided=False):
        self.ranks, self.unexpected, self.mesh = ranks, unexpected, mesh
        self.one_sided = one_sided
        self.processors = processors  # the first so many; None: all
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

    def mesh_of(ranks, processors=None):
        return runs.setdefault(('mesh', ranks, processors),
                               Run(ranks, mesh=True, processors=processors))

    if test == 'latency':
        for size in SIZES[quick]:
            figure((size,), 'us', pair, f'latency:{size}')
    elif test == 'rate':
        for size, window in RATES[quick]:
            figure((size, window), 'msg_s', pair, f'rate:{size}:{window}')
    elif test == 'bandwidth':
        for size in BANDWIDTHS[quick]:
            figure((size,), 'mb_s', pair, f'rate:{size}:16', size / 1e6)
    elif test == 'fresh':
        for size in SIZES[quick][2:]:
            figure((size,), 'us', pair, f'latency:{size}:fresh')
    elif test == 'exchange':
        for data in DATA[quick]:
            for size in EXCHANGES[quick]:
                figure((data, size), 'us', pair, f'exchange:{size}:{data}')
    elif test == 'bidirectional':
        for size in BANDWIDTHS[quick]:
            figure((size,), 'mb_s', pair, f'both:{size}:16', size / 1e6)
    elif test in ('ring', 'alltoall'):
        for ranks in PROCESSES[quick]:
            for data in DATA[quick]:
                for size in RINGS[quick]:
                    figure((ranks, data, size), 'us', mesh_of(ranks), f'{test}:{size}:{data}')
    elif test == 'crowded':
        for pattern in ('ring', 'alltoall'):
            for ranks in PROCESSES[quick]:
                for size in (8, 16 * K):
                    figure((pattern, ranks, size), 'us', mesh_of(ranks, 2),
                           f'{pattern}:{size}:stale:computing')
    elif test == 'mpi':
        for ranks in CALLERS[quick]:
            for call in CALLS if ranks == 2 else CALLS[2:]:
                for size in CALL_SIZES[quick]:
                    # Of a turn all messages have to fit.
                    if size * ranks <= 16 * M:
                        figure((call, ranks, size), 'us', mesh_of(ranks), f'mpi:{call}:{size}')
            figure(('Barrier', ranks, 0), 'us', mesh_of(ranks), 'mpi:Barrier:0')
    elif test == 'onesided':
        run = runs.setdefault(test, Run(2, one_sided=True))
        for call in CALLS_ONE_SIDED:
            for window in WINDOWS_ONE_SIDED[quick]:
                for data in DATA[quick]:
                    for size in ONE_SIDED[quick]:
                        if size * window <= 16 * M:
                            figure((call, window, data, size), 'us', run,
                                   f'one-sided:{call}:{size}:{window}:{data}')
        for window in WINDOWS_ONE_SIDED[quick]:
            figure(('fetch-add', window, 'stale', 8), 'us', run, f'one-sided:add:8:{window}:stale')
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
        figure(('open, connect, first reply',), 'ms', pair, 'ready')
        figure(('connect, first reply',), 'us', pair, 'connect')
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
