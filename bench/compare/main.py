# SPDX-License-Identifier: BSD-2-Clause
"""mx_compare: arguments, the rounds, the output."""

import argparse
import datetime
import mmap
import os
import platform
import signal
import sys
import tempfile
import time

import peers as libraries
import plots
import report
from plan import TESTS, Run, bare_jobs, plan
from results import DISTANCES, ENOUGH, Results, load

MAX_RANKS_CPUS = 64
MOST_ROUNDS, QUICK_ROUNDS = 30, 2
INTERRUPTED = 130  # as the other tools


def complain(text):
    print(f'mx_compare: {text}', file=sys.stderr)


def among(names):
    """Of an option that takes a list of names."""
    def parse(text):
        words = text.split(',')
        for word in words:
            if word not in names:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(names)}")
        return words
    return parse


def within(kind, least, most):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'{text} is not within {least} and {most}')
        return value
    return parse


class Parser(argparse.ArgumentParser):
    """Complains as the other tools do."""

    def error(self, message):
        complain(message.removeprefix('argument '))
        print("Try 'mx_compare --help'.", file=sys.stderr)
        sys.exit(2)


def arguments(version):
    p = Parser(prog='mx_compare', allow_abbrev=False, description=(
        'Runs the same work on Tagwire and on the message libraries of this machine, in turn, '
        'and prints medians, spread and ratios, sorted by the distance of the processors.'))
    p.add_argument('--only', type=among(TESTS), default=list(TESTS), metavar='TEST,...',
                   help=f"only these of {', '.join(TESTS)}")
    p.add_argument('--peers', type=among(list(libraries.FINDERS)), metavar='NAME,...',
                   default=list(libraries.FINDERS),
                   help=f"only these of {', '.join(libraries.FINDERS)}")
    p.add_argument('--quick', action='store_true',
                   help=f'fewer sizes and {QUICK_ROUNDS} rounds: about a minute')
    p.add_argument('--rounds', type=within(int, 1, 99), metavar='N',
                   help=f'so many rounds over everything (default: until every figure has '
                   f'{ENOUGH} samples at the most frequent distance, at most {MOST_ROUNDS})')
    p.add_argument('--time', type=within(float, 0.1, 1e5), default=20, metavar='MS',
                   help='time for each figure in each round (default 20)')
    p.add_argument('--timeout', type=within(float, 1, 1e5), default=120, metavar='SECONDS',
                   help='for one run of one library (default 120)')
    shape = p.add_mutually_exclusive_group()
    shape.add_argument('--json', action='store_true', help='one JSON object a line')
    shape.add_argument('--csv', action='store_true', help='comma separated values')
    shape.add_argument('--markdown', action='store_true', help='the short table of README')
    shape.add_argument('--markdown-all', action='store_true',
                       help='the tables of doc/performance.md')
    p.add_argument('--distance', choices=[*DISTANCES, 'all'], metavar='NAME',
                   help=f"report only samples taken at that distance: {', '.join(DISTANCES)}, or "
                   'each in turn, all (default: the most frequent)')
    p.add_argument('--plots', metavar='DIR', help='draw SVG and PNG plots there, by gnuplot')
    p.add_argument('--save', metavar='FILE', help='save all figures, as --json prints them')
    p.add_argument('--from', metavar='FILE', dest='saved',
                   help='measure nothing: report what was saved')
    p.add_argument('-V', '--version', action='version', version=f'mx_compare (Tagwire) {version}')
    return p.parse_args()


def read(path):
    try:
        with open(path, encoding='utf-8') as f:
            return f.read().strip()
    except OSError:
        return ''


def processors():
    """The processors to use, the first of each core first: threads of one core disturb
    each other."""
    allowed = sorted(os.sched_getaffinity(0))
    first, others, seen = [], [], set()
    for cpu in allowed:
        place = f'/sys/devices/system/cpu/cpu{cpu}/topology/'
        core = (read(place + 'physical_package_id'), read(place + 'core_id'))
        (others if core[1] and core in seen else first).append(cpu)
        seen.add(core)
    # Those of the first package come first.
    home = read(f'/sys/devices/system/cpu/cpu{first[0]}/topology/physical_package_id')
    first.sort(key=lambda cpu: read(
        f'/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id') != home)
    return (first if len(first) > 1 else first + others)[:MAX_RANKS_CPUS]


def machine(cpus):
    model = next((line.partition(':')[2].strip() for line in read('/proc/cpuinfo').splitlines()
                  if line.startswith('model name')), platform.machine())
    return {'processor': model, 'cpus': len(cpus), 'bound': ','.join(map(str, cpus)),
            'system': f"{platform.system()} {platform.release().partition('-')[0]}",
            'date': datetime.datetime.now().isoformat(' ', 'minutes')}


class Progress:
    """One line on a terminal, overwritten; a line for each round elsewhere."""

    def __init__(self):
        self.start, self.round = time.monotonic(), None
        self.terminal = sys.stderr.isatty()

    def show(self, number, title):
        spent = time.monotonic() - self.start
        text = f'round {number + 1}, {spent:.0f} s'
        if self.terminal:
            print(f'\r\033[K{text}, {title}', end='', file=sys.stderr, flush=True)
        elif self.round != number:
            print(text, file=sys.stderr, flush=True)
        self.round = number

    def end(self):
        if self.terminal and self.round is not None:
            print('\r\033[K', end='', file=sys.stderr, flush=True)


class Measurement:
    """All rounds: in each, every library in turn, and the bare machine."""

    def __init__(self, args, here, missing, bare):
        self.args, self.here, self.bare = args, here, bare
        self.figures, self.runs = plan(args.only, args.quick)
        self.cpus = processors()
        names = [{'key': p.key, 'title': p.title, 'version': p.version, 'settings': p.settings}
                 for p in here]
        self.results = Results(machine(self.cpus), names, missing, self.figures)

    def run(self, peer, run, jobs):
        """One start of a driver: {job: samples}."""
        cpus = ','.join(map(str, self.cpus[:run.processors]))
        extra = ['--unexpected', str(run.unexpected)] if run.unexpected else []
        extra += ['--mesh'] if run.mesh else []
        extra += ['--one-sided'] if run.one_sided else []
        with tempfile.NamedTemporaryFile() as line:
            line.truncate(mmap.PAGESIZE)
            found, trouble = libraries.run(
                peer, ['--cpus', cpus, '--time', str(self.args.time), '--line', line.name, *extra,
                       *jobs], run.ranks, self.args.timeout, bool(run.unexpected))
        if trouble:
            self.results.trouble(f'{peer.title}, {run.ranks} processes: {trouble}')
        return found

    def run_peer(self, peer, run):
        """One start of its driver; the samples go into the results."""
        # What is known already comes first, in case that the rest takes too long.
        jobs = sorted((job for job in run.jobs if peer.can(job)), key=lambda job: ':' in job)
        found = self.run(peer, run, ['version', *jobs])
        peer.version = found.get('version', peer.version)
        for figure in self.figures:
            if figure.run is not run:
                continue
            base = self.results.last(peer.key, figure.base) if figure.base else 0
            if base is not None:
                self.results.add(peer.key, figure,
                                 [((value - base) * figure.scale, before, after)
                                  for value, before, after in found.get(figure.job, [])])

    def round(self, number, runs, progress):
        # Another one begins each time.
        order = self.here[number % len(self.here):] + self.here[:number % len(self.here)]
        progress.show(number, 'the bare machine')
        self.results.add_bare(self.run(self.bare, Run(2), bare_jobs(self.figures)))
        for run in runs:
            for peer in order:
                progress.show(number, peer.title)
                self.run_peer(peer, run)
        self.results.nrounds = number + 1

    def rounds(self, count):
        """So many; None: what lacks samples is run again until there are enough."""
        progress = Progress()
        runs = self.runs
        try:
            for number in range(count or MOST_ROUNDS):
                self.round(number, runs, progress)
                if not count:
                    thin = self.results.thin(self.results.distance())
                    runs = [run for run in self.runs if any(f.run is run for f in thin)]
                if not runs:
                    break
        except KeyboardInterrupt:
            progress.end()
            self.results.interrupted = True
            complain('interrupted: this is what there is')
        progress.end()
        for peer, shown in zip(self.here, self.results.peers):
            shown['version'] = short_version(peer.version)
        return self.results


def short_version(text):
    """MPI libraries say a lot."""
    text = text.removeprefix('MPICH Version:').removeprefix('Open MPI').strip()
    for end in (', package', ' MPICH Release', ' MPICH ABI'):
        text = text.partition(end)[0]
    return text


def measure(args, sources, programs):
    here, missing = libraries.find(args.peers, sources, programs)
    for key, why in missing.items():
        complain(f'{libraries.TITLES[key]} is not here: {why}')
    if not here:
        complain('nothing to compare')
        sys.exit(1)
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else None)
    return Measurement(args, here, missing, libraries.bare(programs)).rounds(rounds)


def output(args, results):
    distance = args.distance or results.distance()
    if args.json:
        for line in results.json_lines():
            print(line)
    elif args.csv:
        report.write_csv(results, sys.stdout)
    elif args.markdown:
        sys.stdout.write(report.markdown(results))
    elif args.markdown_all:
        sys.stdout.write(report.markdown_all(results))
    else:
        sys.stdout.write(report.plain(results, distance))
    sys.stdout.flush()
    if args.json or args.csv or args.markdown or args.markdown_all:
        for trouble in results.troubles:
            complain(trouble)
    if args.save:
        with open(args.save, 'w', encoding='utf-8') as f:
            f.writelines(line + '\n' for line in results.json_lines())
    if args.plots:
        paths, trouble = plots.draw(results, args.plots)
        for path in paths:
            complain(f'drew {path}')
        if trouble:
            complain(trouble)
            return 1
    return 0


def saved(path):
    try:
        return load(path)
    except (ValueError, KeyError, StopIteration) as why:
        raise ValueError(f'{path}: {why}') from None


def printed():
    """Whether all output was written. A full disk shows only here."""
    try:
        sys.stdout.flush()
        return True
    except OSError as why:
        complain(why.strerror or why)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False


def main(sources, programs, version):
    # No driver outlives a comparison that timeout(1) ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = arguments(version)
    except SystemExit as end:
        return end.code if printed() else 1
    try:
        results = saved(args.saved) if args.saved else measure(args, sources, programs)
        if not any(results.samples.get(p['key']) for p in results.peers):
            complain('no figures')
            return INTERRUPTED if results.interrupted else 1
        return output(args, results) or (INTERRUPTED if results.interrupted else 0)
    except KeyboardInterrupt:
        complain('interrupted')
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as why:
        complain(f'{why.filename}: {why.strerror}' if why.filename else why.strerror or why)
        return 1
    except ValueError as why:
        complain(why)
        return 1
