"""Train a small network with DistributedDataParallel on two processes and capture three steps of each.

Gloo carries the gradients over the loopback interface. Rank 1 takes longer to make its batches, so rank 0 waits for it
in every all-reduce.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python torch_ddp.py torch_ddp_gloo
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

RANKS = 2
STEPS = 5
BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 256, 1024, 64
READ_S = {0: 0.001, 1: 0.010}


def train(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", GLOO_SOCKET_IFNAME="lo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    layers = [nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder, worker_name=f"rank{rank}", use_gzip=True),
    ) as profiler:
        for _ in range(STEPS):
            train_step(rank, model, optimizer)
            profiler.step()
    dist.destroy_process_group()


def train_step(rank, model, optimizer):
    with record_function("data"):
        time.sleep(READ_S[rank])
        inputs = torch.randn(BATCH, INPUTS)
    with record_function("forward"):
        loss = model(inputs).pow(2).mean()
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    with record_function("metrics"):
        exchange_metrics(rank, loss.detach().clone())


def exchange_metrics(rank, loss):
    """One collective of each sort, so that a table of collectives has something to tell apart."""
    dist.all_reduce(loss)
    dist.all_gather([torch.empty(1) for _ in range(RANKS)], loss.view(1))
    dist.broadcast(loss, src=0)
    if rank == 0:
        dist.send(loss, dst=1)
    else:
        dist.recv(loss, src=0)
    dist.barrier()


if __name__ == "__main__":
    multiprocessing.spawn(train, args=(sys.argv[1],), nprocs=RANKS)
