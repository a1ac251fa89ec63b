# SPDX-License-Identifier: BSD-2-Clause
"""The message libraries of this machine: which are here, their drivers, how to run them."""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess

SOURCES = ('work.c', 'work.h', 'mpi_rows.h', 'overlap.h', 'patterns.h', 'line.h', 'peer.h', 'launch.h')
COMPILE_FLAGS = ['-O2', '-std=gnu11', '-w']
FI_DEEPEST = 10000  # receives that a queue of libfabric has room for, of the depths measured


class Missing(Exception):
    """A library that cannot take part, and why."""


class Peer:
    """One library that takes part. argv(ranks) starts its driver."""

    def __init__(self, key, title, settings, argv, env=None, deepest=None, room=None,
                 is_mpi=False, one_sided=False):
        self.key, self.title, self.settings = key, title, settings
        self.argv, self.env = argv, dict(env or {})
        self.deepest = deepest  # queues can hold so many; None: enough
        self.deep_env = dict(room or {})  # what it needs for deep queues
        self.version = '?'
        self.is_mpi, self.one_sided = is_mpi, one_sided

    def can(self, job):
        kind, *words = job.split(':')
        if kind == 'mpi':
            return self.is_mpi
        if kind == 'one-sided':
            return self.one_sided
        return kind != 'match' or self.deepest is None or int(words[-1]) <= self.deepest


def output(command):
    """What a command prints, or '' if it fails."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=60, check=True, text=True, errors='replace').stdout
    except (OSError, subprocess.SubprocessError):
        return ''


def cache_dir():
    base = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return os.path.join(base, 'tagwire', 'compare')


def build(source_dir, header, compiler, flags):
    """Compiles the driver of a library unless that was done before; its path."""
    digest = hashlib.sha256()
    command = [*compiler, *COMPILE_FLAGS, f'-DPEER="{header}"', os.path.join(source_dir, 'work.c')]
    for name in (*SOURCES, header):
        with open(os.path.join(source_dir, name), 'rb') as f:
            digest.update(f.read())
    # Another version of the library is another -show, package or compiler.
    for text in (shlex.join(command), output([*compiler, '--version']),
                 output([*compiler, '-show']), shlex.join(flags)):
        digest.update(text.encode() + b'\0')
    path = os.path.join(cache_dir(), f'{header[5:-2]}-{digest.hexdigest()[:16]}')
    if os.access(path, os.X_OK):
        return path
    os.makedirs(cache_dir(), exist_ok=True)
    partial = f'{path}.{os.getpid()}'
    done = subprocess.run([*command, '-o', partial, *flags, '-lm'], text=True, errors='replace',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        for line in done.stdout.splitlines():
            if 'No such file or directory' in line:
                raise Missing('its headers are missing: ' + line.strip())
        raise Missing('its driver does not compile:\n' + done.stdout.strip())
    os.replace(partial, path)
    return path


def package_flags(module, debian):
    if not shutil.which('pkg-config') or not output(['pkg-config', '--modversion', module]):
        raise Missing(f'apt-get install {debian} pkg-config')
    return shlex.split(output(['pkg-config', '--cflags', '--libs', module]))


def c_compiler():
    compiler = shlex.split(os.environ.get('CC', '')) or ['cc']
    if not shutil.which(compiler[0]):
        raise Missing('apt-get install gcc')
    return compiler


def mpi(name):
    """The compiler and the launcher of an MPI, under its Debian names or the plain ones."""
    words = {'openmpi': 'open mpi', 'mpich': 'hydra'}
    for suffix in ('.' + name, ''):
        compiler, launcher = shutil.which('mpicc' + suffix), shutil.which('mpirun' + suffix)
        if compiler and launcher and words[name] in output([launcher, '--version']).lower():
            return [compiler], launcher
    raise Missing({'openmpi': 'apt-get install openmpi-bin libopenmpi-dev',
                   'mpich': 'apt-get install mpich libmpich-dev'}[name])


def over_tagwire(programs):
    """What the environment needs for libfabric to find the provider of Tagwire."""
    modules = os.path.realpath(os.path.join(programs, '..', '..', '.libs'))
    env = {}
    if os.path.exists(os.path.join(modules, 'libtagwire-fi.so')):
        env = {'FI_PROVIDER_PATH': modules, 'TAGWIRE_MODULES': modules}
    if not shutil.which('fi_info'):
        raise Missing('apt-get install libfabric-bin')
    if 'tagwire' not in output(['env', *(f'{k}={v}' for k, v in env.items()), 'fi_info', '-p',
                                'tagwire']):
        raise Missing('libfabric does not find the provider: FI_PROVIDER_PATH must name its folder')
    return env


def openmpi_with(source_dir, key, title, settings, env, deepest=None):
    compiler, launcher = mpi('openmpi')
    driver = build(source_dir, 'peer_mpi.h', compiler, [])
    start = [launcher, '--oversubscribe', '--bind-to', 'none', *settings]
    if os.geteuid() == 0:
        start.append('--allow-run-as-root')
    return Peer(key, title, ' '.join(settings),
                lambda ranks: [*start, '-np', str(ranks), driver], env, deepest, is_mpi=True)


def openmpi(source_dir, _programs):
    words = output([mpi('openmpi')[1], '--version']).split()
    number = next((w for w in words if w[0].isdigit()), '4')
    shm = 'vader' if int(number.split('.')[0]) < 5 else 'sm'
    settings = ['--mca', 'pml', 'ob1', '--mca', 'btl', f'self,{shm}']
    return openmpi_with(source_dir, 'openmpi', 'Open MPI', settings, {})


def openmpi_tagwire(source_dir, programs):
    settings = ['--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi',
                '--mca', 'mtl_ofi_provider_include', 'tagwire']
    return openmpi_with(source_dir, 'openmpi-tagwire', 'Open MPI over Tagwire', settings,
                        over_tagwire(programs), FI_DEEPEST)


def mpich(source_dir, _programs):
    compiler, launcher = mpi('mpich')
    driver = build(source_dir, 'peer_mpi.h', compiler, [])
    return Peer('mpich', 'MPICH', 'its defaults',
                lambda ranks: [launcher, '-bind-to', 'none', '-np', str(ranks), driver], is_mpi=True)


def ucx(source_dir, _programs):
    flags = package_flags('ucx', 'libucx-dev')
    driver = build(source_dir, 'peer_ucx.h', c_compiler(), flags)
    env = {'UCX_TLS': os.environ.get('UCX_TLS', 'posix,sysv,cma,self')}
    return Peer('ucx', 'UCX', 'UCX_TLS=' + env['UCX_TLS'], lambda _: [driver], env, one_sided=True)


def libfabric(source_dir, _programs):
    flags = package_flags('libfabric', 'libfabric-dev')
    driver = build(source_dir, 'peer_ofi.h', c_compiler(), flags)
    # 1.17 crashes with queues for 100,000.
    room = {'FI_SHM_RX_SIZE': '16384', 'FI_SHM_TX_SIZE': '16384'}
    return Peer('libfabric', 'libfabric', 'FI_SHM_RX_SIZE=16384 for matching',
                lambda _: [driver], {}, FI_DEEPEST, room, one_sided=True)


def libfabric_tagwire(source_dir, programs):
    flags = package_flags('libfabric', 'libfabric-dev')
    driver = build(source_dir, 'peer_ofi.h', c_compiler(), flags)
    return Peer('libfabric-tagwire', 'libfabric over Tagwire', 'its defaults',
                lambda _: [driver], {'COMPARE_OFI': 'tagwire', **over_tagwire(programs)},
                FI_DEEPEST, one_sided=True)


def tagwire(_source_dir, programs):
    return Peer('tagwire', 'Tagwire', 'its defaults',
                lambda _: [os.path.join(programs, 'compare-mx')])


FINDERS = {'tagwire': tagwire, 'openmpi': openmpi, 'mpich': mpich, 'ucx': ucx,
           'libfabric': libfabric, 'openmpi-tagwire': openmpi_tagwire,
           'libfabric-tagwire': libfabric_tagwire}
TITLES = {'tagwire': 'Tagwire', 'openmpi': 'Open MPI', 'mpich': 'MPICH', 'ucx': 'UCX',
          'libfabric': 'libfabric', 'openmpi-tagwire': 'Open MPI over Tagwire',
          'libfabric-tagwire': 'libfabric over Tagwire'}


def find(wanted, source_dir, programs):
    """Those wanted that are here, and why the others are not."""
    here, missing = [], {}
    for key in wanted:
        try:
            here.append(FINDERS[key](source_dir, programs))
        except Missing as why:
            missing[key] = str(why)
    return here, missing


def bare(programs):
    return Peer('bare', 'bare', '', lambda _: [os.path.join(programs, 'compare-bare')])


def stop(process):
    """Ends a driver and what it started: first kindly, so that mpirun cleans up."""
    for how, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, how)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def run(peer, arguments, ranks, timeout, deep=False):
    """One run of a driver: {job: samples}, and what went wrong or None. What was printed
    before a failure counts."""
    env = {**os.environ, **peer.env, **(peer.deep_env if deep else {})}
    command = [*peer.argv(ranks), '--ranks', str(ranks), *arguments]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, text=True,
                               errors='replace', stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    trouble = None
    try:
        out, err = process.communicate(timeout=timeout)
        if process.returncode:
            lines = [line for line in err.splitlines() if line.strip()] or ['no message']
            trouble = f'exit code {process.returncode}: ' + ' / '.join(lines[:2])
    except subprocess.TimeoutExpired:
        trouble = f'not finished after {timeout:g} seconds'
        stop(process)
        out, err = process.communicate()
    except BaseException:
        stop(process)
        raise
    found = {}
    for line in out.splitlines():
        job, _, text = line.partition(' ')
        try:
            if job == 'version':
                found[job] = text
            else:
                value, before, after = (float(word) for word in text.split())
                found.setdefault(job, []).append((value, before, after))
        except ValueError:
            pass
    return found, trouble
