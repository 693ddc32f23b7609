"""A PyTorch job that records itself, with one slow thing at a time: ``torch_job.py FOLDER PLANTED...``.

It is run by a test. `ranks` starts two processes, of which one is late and both are told by signals and by a touched
file to record; `full` writes to a disk without space.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import tracehound

STEPS, BATCH, INPUTS = 8, 4, 64


class Samples(Dataset):
    """Random rows, of which each takes so many seconds to read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((INPUTS,), float(index))


def augment(rows: torch.Tensor) -> torch.Tensor:
    """Add a number that plain Python takes its time to find."""
    number = 0
    for each in range(2_000_000):  # no calls, of which each would be an event
        number = (number + each) % 7
    return rows + number


def train(folder: Path, planted: str) -> None:
    garbage = [[number] for number in range(600_000)] if planted == "gc" else []
    model = nn.Sequential(nn.Linear(INPUTS, INPUTS), nn.ReLU(), nn.Linear(INPUTS, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Samples(0.025 if planted == "loader" else 0), batch_size=BATCH)
    more = {"profile_memory": True}
    with tracehound.record(folder, steps=3, findings=planted == "findings", options=more) as recorder:
        for rows in loader:
            loss = model(augment(rows) if planted == "augment" else rows).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if planted == "sleep":
                time.sleep(0.1)
            if planted == "gc":
                gc.collect()
            recorder.step()
        report = recorder._findings_process
        if report is not None:
            report.wait(120)
            recorder.step()
            assert recorder._findings_process is None
    del garbage


def train_rank(rank: int, folder: Path) -> None:
    """One of two ranks: a signal to each starts the first recording, a file that one of them touches the second."""
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(INPUTS, INPUTS))
    with tracehound.record(folder, steps=3, on_signal=signal.SIGUSR1, on_file=folder / "go") as recorder:
        for step in range(24):
            if step == 2:
                os.kill(os.getpid(), signal.SIGUSR1)
            if step == 12 and rank == 1:
                (folder / "go").touch()
            model(torch.randn(BATCH, INPUTS)).mean().backward()
            time.sleep(0.05 if rank == 1 else 0.01)
            recorder.step()
    print([path.name for path in recorder.recordings])
    distributed.destroy_process_group()


def fill_disk() -> None:
    """Let no file grow beyond 20 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def main() -> None:
    folder, *planted = sys.argv[1:]
    torch.set_num_threads(1)
    for each in planted:
        if each == "ranks":
            os.environ["MASTER_PORT"] = sys.argv[-1]
            multiprocessing.spawn(train_rank, args=(Path(folder),), nprocs=2)
            return
        if each == "full":
            fill_disk()
        train(Path(folder) / each, each)
    print("trained")


if __name__ == "__main__":
    main()
