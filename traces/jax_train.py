"""Train a small transformer on eight virtual CPU devices with JAX and capture four steps of it.

The batch is split over an 8x1 mesh, so every step ends in all-reduces of the gradients. A second thread prepares the
batches. Its read of one batch stalls for 150 ms: at a small batch the devices stand idle until it arrives, at a large
one the steps before it hide the wait.

    python3 -m venv venv && venv/bin/pip install jax
    venv/bin/python jax_train.py jax_cpu8_b128 --batch 128
    venv/bin/python jax_train.py jax_cpu8_b4096 --batch 4096
"""

import argparse
import os
import queue
import threading
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.profiler import StepTraceAnnotation, TraceAnnotation
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

VOCABULARY, TOKENS, WIDTH, HEADS, LAYERS = 256, 8, 64, 4, 2
WARM_STEPS, TRACED_STEPS = 3, 4
STALLED_BATCH = 5
READ_S, STALLED_READ_S = 0.003, 0.150


def initial_parameters(rng):
    """Weights as nested dictionaries of float32 arrays."""

    def weight(*shape):
        return rng.normal(size=shape, scale=0.05).astype(np.float32)

    layer_shapes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    return {
        "embedding": weight(VOCABULARY, WIDTH),
        "layers": [{name: weight(*shape) for name, shape in layer_shapes.items()} for _ in range(LAYERS)],
        "head": weight(WIDTH, VOCABULARY),
    }


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(layer, x):
    batch, tokens, _ = x.shape
    qkv = (x @ layer["qkv"]).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS)
    query, key, value = (qkv[:, :, part] for part in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(WIDTH // HEADS)
    weights = jax.nn.softmax(jnp.where(np.tri(tokens, dtype=bool), scores, -1e9))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape) @ layer["out"]


def loss_of(parameters, tokens):
    """Mean cross-entropy of every next token; the scopes reach the names of the HLO ops."""
    with jax.named_scope("embedding"):
        x = parameters["embedding"][tokens[:, :-1]]
    for number, layer in enumerate(parameters["layers"]):
        with jax.named_scope(f"layer{number}"):
            with jax.named_scope("attention"):
                x = x + attention(layer, normalized(x))
            with jax.named_scope("mlp"):
                x = x + jax.nn.gelu(normalized(x) @ layer["up"]) @ layer["down"]
    with jax.named_scope("loss"):
        predicted = jax.nn.log_softmax(x @ parameters["head"])
        return -jnp.take_along_axis(predicted, tokens[:, 1:, None], -1).mean()


@jax.jit
def train_step(parameters, tokens):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
    with jax.named_scope("sgd"):
        parameters = jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, parameters, gradients)
    return parameters, loss


def load_batches(batch, rng, batches):
    """Put one batch after the other into the queue; runs in a thread of its own."""
    for number in range(WARM_STEPS + TRACED_STEPS):
        with TraceAnnotation("load_batch", batch=number):
            with TraceAnnotation("read"):
                time.sleep(STALLED_READ_S if number == STALLED_BATCH else READ_S)
            with TraceAnnotation("tokenize"):
                tokens = rng.integers(0, VOCABULARY, size=(batch, TOKENS + 1), dtype=np.int32)
        batches.put(tokens)


def train(parameters, batches, sharding, steps):
    for number in steps:
        with StepTraceAnnotation("train", step_num=number):
            with TraceAnnotation("wait_for_batch"):
                tokens = batches.get()
            with TraceAnnotation("feed"):
                tokens = jax.device_put(tokens, sharding)
            with TraceAnnotation("forward_backward"):
                parameters, loss = train_step(parameters, tokens)
            with TraceAnnotation("read_loss"):
                print(f"step {number}: loss {float(loss):.4f}")
    return parameters


def main():
    arguments = argparse.ArgumentParser(description="capture four training steps on eight virtual CPU devices")
    arguments.add_argument("logdir")
    arguments.add_argument("--batch", type=int, default=128)
    options = arguments.parse_args()

    rng = np.random.default_rng(0)
    mesh = Mesh(np.array(jax.devices()).reshape(8, 1), ("data", "model"))
    parameters = jax.device_put(initial_parameters(rng), NamedSharding(mesh, P()))
    split = NamedSharding(mesh, P("data"))
    batches = queue.Queue(maxsize=1)
    threading.Thread(target=load_batches, args=(options.batch, rng, batches), daemon=True).start()

    parameters = train(parameters, batches, split, range(WARM_STEPS))
    with jax.profiler.trace(options.logdir):
        parameters = train(parameters, batches, split, range(WARM_STEPS, WARM_STEPS + TRACED_STEPS))
        jax.block_until_ready(parameters)  # the loss is there before the other devices are done


if __name__ == "__main__":
    main()
