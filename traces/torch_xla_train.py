"""Train a small network with PyTorch/XLA on CPU devices and capture four steps, or serve captures to others.

    venv/bin/python torch_xla_train.py torch_xla_single
    venv/bin/python torch_xla_train.py torch_xla_irdebug --debug
    venv/bin/python torch_xla_train.py torch_xla_spmd4 --spmd 4

With --serve the folder stays empty: the steps run for a while, and another process asks for a capture.

    venv/bin/python torch_xla_train.py unused --serve 9021
    venv/bin/python -c "import torch_xla.debug.profiler as xp; xp.trace('127.0.0.1:9021', 'torch_xla_remote', 400)"
"""

import argparse
import os
import time

INPUTS, HIDDEN, BATCH = 128, 512, 128
WARM_STEPS, TRACED_STEPS = 3, 4
SERVED_S, PAUSE_S = 30, 0.02


def set_environment(options):
    """Tell PyTorch/XLA what it reads only once, when it is first imported."""
    os.environ["PJRT_DEVICE"] = "CPU"
    if options.spmd:
        os.environ["CPU_NUM_DEVICES"] = str(options.spmd)
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.spmd}"
    if options.debug:
        os.environ["XLA_IR_DEBUG"] = "1"
        os.environ["XLA_HLO_DEBUG"] = "1"


class Trainer:
    """The model, its optimizer and, under SPMD, the mesh that splits the weights and the batches."""

    def __init__(self, devices):
        import torch
        import torch_xla
        from torch import nn

        torch.manual_seed(0)
        self.mesh = device_mesh(devices) if devices else None
        self.device = torch_xla.device()
        self.model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, INPUTS)).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.split(self.model[0].weight, ("model", None))
        self.split(self.model[2].weight, (None, "model"))

    def split(self, tensor, axes):
        if self.mesh is not None:
            from torch_xla.distributed import spmd

            spmd.mark_sharding(tensor, self.mesh, axes)

    def step(self, number):
        import torch
        from torch_xla.debug.profiler import StepTrace, Trace

        with StepTrace("train_step", step_num=number), Trace("build_graph"):
            inputs = torch.randn(BATCH, INPUTS).to(self.device)
            self.split(inputs, ("data", None))
            with Trace("forward"):
                loss = self.model(inputs).pow(2).mean()
            with Trace("backward"):
                loss.backward()
            with Trace("optimizer"):
                self.optimizer.step()
                self.optimizer.zero_grad()


def device_mesh(devices):
    import numpy as np
    from torch_xla import runtime
    from torch_xla.distributed import spmd

    runtime.use_spmd()
    return spmd.Mesh(np.arange(devices), (devices // 2, 2), ("data", "model"))


def capture(trainer, folder):
    from torch_xla.core import xla_model
    from torch_xla.debug import profiler

    profiler.start_trace(folder)
    for number in range(WARM_STEPS, WARM_STEPS + TRACED_STEPS):
        trainer.step(number)
    xla_model.wait_device_ops()
    profiler.stop_trace()


def serve(trainer, port):
    from torch_xla.core import xla_model
    from torch_xla.debug import profiler

    server = profiler.start_server(port)
    end = time.monotonic() + SERVED_S
    number = WARM_STEPS
    while time.monotonic() < end:
        trainer.step(number)
        xla_model.wait_device_ops()
        time.sleep(PAUSE_S)
        number += 1
    del server  # the server answers as long as it is referred to


def main():
    arguments = argparse.ArgumentParser(description="capture four training steps of PyTorch/XLA on CPU devices")
    arguments.add_argument("folder")
    arguments.add_argument("--spmd", type=int, default=0, metavar="DEVICES", help="split the work over so many devices")
    arguments.add_argument("--debug", action="store_true", help="carry source lines and scopes into the HLO")
    arguments.add_argument("--serve", type=int, default=0, metavar="PORT", help="serve captures instead of making one")
    options = arguments.parse_args()

    set_environment(options)
    from torch_xla.core import xla_model

    trainer = Trainer(options.spmd)
    for number in range(WARM_STEPS):
        trainer.step(number)
    xla_model.wait_device_ops()
    if options.serve:
        serve(trainer, options.serve)
    else:
        capture(trainer, options.folder)


if __name__ == "__main__":
    main()
