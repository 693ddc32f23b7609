"""A small TensorFlow job with a profiler server on loopback and a slow input pipeline: live_tensorflow.py PORT"""

from __future__ import annotations

import sys
import time


def train(port: int) -> None:
    """Step for five minutes at most."""
    import tensorflow as tf  # noqa: PLC0415, not installed with the tests

    tf.profiler.experimental.server.start(port)
    weights = tf.Variable(tf.random.normal((256, 256)))

    def decode(number: tf.Tensor) -> tf.Tensor:
        time.sleep(0.02)
        return tf.fill((256,), 1e-3 * float(number))

    def batch(number: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(decode, [number], tf.float32), (256,))

    data = iter(tf.data.Dataset.range(1 << 40).map(batch).batch(4))

    @tf.function
    def step(rows: tf.Tensor) -> tf.Tensor:
        weights.assign_sub(1e-9 * tf.matmul(rows, rows, transpose_a=True))
        return tf.reduce_sum(weights)

    until = time.monotonic() + 300
    number = 0
    while time.monotonic() < until:
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step(next(data))
        number += 1
        if number == 3:
            print("stepping", flush=True)


if __name__ == "__main__":
    train(int(sys.argv[1]))
