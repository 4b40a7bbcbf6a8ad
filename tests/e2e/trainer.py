"""A training that writes its log as speculators does and has no framework: a launcher, and two ranks in step.

The promise: what an exporter can see of it is real. The ranks are processes of their own with RANK and LOCAL_RANK in
their environment, they read whole files of FOLDER/train and FOLDER/val, a batch is done when both have done their
part of it, and a rank that hangs waits in the kernel, while the other one waits for it in a socket, as in a collective.

    trainer.py FOLDER > train.log       the order of the moment is in FOLDER/order:
        train, validate                 go on with that
        read PATH                       the next sample is this file; a FIFO without a word in it never ends
        lock                            rank 0 takes a lock twice; SIGUSR1 gives it back

Each rank tells its process id in FOLDER/rank.N, and when it last had read a sample in FOLDER/read.N.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

BATCH = 0.4
EPOCHS = 3
PR_SET_PDEATHSIG = 1
FOLDER = sys.argv[1]


def path(*names):
    return os.path.join(FOLDER, *names)


def launch():
    ends = socket.socketpair()
    ranks = []
    for rank, end in enumerate(ends):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE='2', PEER=str(end.fileno()))
        command = [sys.executable, '-S', '-E', __file__, FOLDER]
        ranks.append(subprocess.Popen(command, env=environment, pass_fds=[end.fileno()]))
    for end in ends:
        end.close()
    return max(rank.wait() for rank in ranks)


class Log:
    """Lines as Rich writes them to a file: 80 columns, the time only where it has changed, long records wrapped."""

    def __init__(self):
        self.told = None

    def info(self, text, where='trainer.py:737'):
        now = time.strftime('[%H:%M:%S]')
        head = ' ' * len(now) if now == self.told else now
        self.told = now
        first, *others = textwrap.wrap(text, 45, break_on_hyphens=False)
        lines = ['%s INFO     %-45s %s' % (head, first, where)]
        lines += [' ' * 20 + '%-60s' % other for other in others]
        self.write('\n'.join(lines) + '\n')

    def bar(self, epoch, batches):
        self.write('Epoch %d 100%% %s %d/%d  [ 0:00:05 < 0:00:00 , 20 it/s ]\n' % (epoch, '\u2501' * 26, batches, batches))

    @staticmethod
    def write(text):
        os.write(1, text.encode())


class Samples:
    """The files of a folder, of which each rank reads its half, over and over."""

    def __init__(self, folder, rank):
        names = sorted(name for name in os.listdir(path(folder)) if name.endswith('.bin'))
        self.paths = [path(folder, name) for name in names[rank::2]]
        self.at = 0
        self.told = os.open(path('read.%d' % rank), os.O_WRONLY | os.O_CREAT)

    def read(self, name=None):
        if name is None:
            name = self.paths[self.at % len(self.paths)]
            self.at += 1
        with open(name, 'rb', buffering=0) as sample:
            sample.read()
        os.pwrite(self.told, b'%.3f' % time.time(), 0)


class Rank0:
    def __init__(self, peer):
        self.peer = peer
        self.log = Log()
        self.epoch = 0
        self.step = 0
        self.validates = False
        self.train, self.val = Samples('train', 0), Samples('val', 0)
        self.lock = threading.Lock()
        signal.signal(signal.SIGUSR1, lambda *_: self.lock.release())

    def run(self):
        self.log.info("speculator_type='eagle3', dry_run=0, seed=42, trainer/epochs=%d" % EPOCHS, 'logger.py:736')
        self.log.info('Training epoch 1/%d started' % EPOCHS)
        while True:
            with open(path('order')) as file:
                order, *names = file.read().split()
            if self.validates and order == 'train':
                self.end_validation()
            elif not self.validates and order != 'train':
                self.begin_validation()
            if order == 'lock':
                self.lock.acquire()
                self.lock.acquire()
            self.batch(*names)

    def batch(self, *names):
        """Both ranks do their part, in their own time."""
        self.peer.sendall(b'v' if self.validates else b't')
        if self.validates:
            self.val.read(*names)
        else:
            self.train.read()
            self.record()
        time.sleep(BATCH)
        if not self.peer.recv(1):
            sys.exit('the other rank is gone')

    def record(self):
        self.log.info(
            'train/loss_0=0.013, train/full_acc_0=0.019, train/cond_acc_0=0.019, train/loss=0.039, '
            'train/error_records=0.00e+00, profile/fetch_ms=11.071, profile/step_ms=67.700, '
            'epoch=%d, lr=9.86e-05, global_step=%d' % (self.epoch, self.step), 'trainer.py:587')
        self.step += 5

    def begin_validation(self):
        epoch = self.epoch
        self.log.bar(epoch, self.step)
        self.log.info('Training epoch %d/%d completed' % (epoch + 1, EPOCHS), 'trainer.py:739')
        self.log.info('Saving checkpoint to output/checkpoints/%d' % epoch, 'trainer.py:689')
        with open(path('checkpoint'), 'wb') as checkpoint:
            checkpoint.write(bytes(1 << 20))
        self.log.info('Checkpoint saved to output/checkpoints/%d' % epoch, 'trainer.py:707')
        self.log.info('Validation epoch %d/%d started' % (epoch + 1, EPOCHS), 'trainer.py:754')
        self.validates = True

    def end_validation(self):
        epoch = self.epoch
        self.log.bar(epoch, self.val.at)
        self.log.info('val/loss_0_epoch=0.012, val/full_acc_0_epoch=0.006, val/loss_epoch=0.037, epoch=%d' % epoch,
                      'trainer.py:671')
        self.log.info('Validation epoch %d/%d completed' % (epoch + 1, EPOCHS), 'trainer.py:756')
        self.epoch += 1
        self.log.info('Training epoch %d/%d started' % (epoch + 2, EPOCHS))
        self.validates = False


def rank_1(peer):
    samples = {b't': Samples('train', 1), b'v': Samples('val', 1)}
    while (order := peer.recv(1)):
        samples[order].read()
        peer.sendall(b'd')


def work(rank):
    # Nobody stays behind, not even one that is stopped.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    peer = socket.socket(fileno=int(os.environ['PEER']))
    with open(path('rank.new.%d' % rank), 'w') as file:
        file.write(str(os.getpid()))
    os.rename(path('rank.new.%d' % rank), path('rank.%d' % rank))
    if rank == 0:
        Rank0(peer).run()
    else:
        rank_1(peer)


if __name__ == '__main__':
    # Whatever becomes of the test, this ends.
    signal.alarm(400)
    if 'RANK' in os.environ:
        work(int(os.environ['RANK']))
    else:
        sys.exit(launch())
