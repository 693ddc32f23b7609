"""Train a small transformer with all that the PyTorch profiler can record and capture three steps of it.

Stacks, shapes, memory, modules and FLOPs are on. A worker process reads the batches slowly enough that the training
loop waits for some of them.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python torch_stacks.py torch_stacks
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, Dataset

VOCABULARY, TOKENS, WIDTH, HEADS, LAYERS = 1000, 32, 128, 4, 2
BATCH, STEPS = 16, 5
READ_S = 0.006


class Sequences(Dataset):
    """Random token sequences, each one read with the delay of a slow disk."""

    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        time.sleep(READ_S)
        return torch.randint(0, VOCABULARY, (TOKENS + 1,), generator=torch.Generator().manual_seed(index))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        with record_function("attention"):
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


def language_model():
    blocks = [Block() for _ in range(LAYERS)]
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *blocks, nn.Linear(WIDTH, VOCABULARY))


def train(folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = language_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        with_flops=True,
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder, worker_name="worker0", use_gzip=True),
    ) as profiler:
        for tokens in DataLoader(Sequences(), batch_size=BATCH, num_workers=1):
            train_step(model, optimizer, tokens)
            profiler.step()


def train_step(model, optimizer, tokens):
    with record_function("forward"):
        predicted = model(tokens[:, :-1])
        loss = functional.cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    train(sys.argv[1])
