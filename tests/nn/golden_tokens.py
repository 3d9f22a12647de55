# SPDX-License-Identifier: MIT
"""What golden_gpt.py and golden_lstm.py share: weights and tokens, ten steps of SGD, and how results are printed.

Weights and tokens are hashes of (tensor, element), the same as in hashed.h, so they need no place in a file. All is in double from
numbers that are exact in fp32, so printed are the true values to all digits. Of a tensor of a model that is not "tiny": 16 values and
the norm.
"""
import torch
import torch.nn.functional as F

STEPS, PICKS = 10, 16


def hashes(tensor, count):
    """[-0.5, 0.5), multiples of 2^-24."""
    x = (torch.arange(count, dtype=torch.int64) * 2654435761 + tensor * 40503 + 12345) % 2**32
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
        x = ((x ^ (x >> shift)) * factor) % 2**32
    return (x >> 8).double() / 2**24 - 0.5


def tokens(sequence, batch, block, vocabulary):
    return ((hashes(1000 + sequence, batch * block) + 0.5) * vocabulary).long().view(batch, block)


def fill(named, value):
    """value(name, p, hashes): what the elements of parameter p are."""
    with torch.no_grad():
        for i, (name, p) in enumerate(named):
            p.copy_(value(name, p, hashes(i, p.numel()).view_as(p)))


def emit(name, values):
    print(name, *values.shape)
    print(*(f"{value:.7g}" for value in values.flatten().tolist()))


def report(kind, label, tensor):
    if kind == "tiny":
        return emit(f"{kind}/{label}", tensor)
    flat = tensor.detach().flatten()
    emit(f"{kind}/{label}", flat[[k * (len(flat) // PICKS) + k * 7 % (len(flat) // PICKS) for k in range(PICKS)]])
    emit(f"{kind}/norm/{label}", flat.norm().view(1))


def train(kind, model, named, x, y):
    """Prints logits, loss and every gradient of the first of STEPS steps, and the parameters after the last."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        if step == 0:
            report(kind, "logits", logits)
            emit(f"{kind}/loss", loss)
            for name, p in named:
                report(kind, "gradient/" + name, p.grad)
        optimizer.step()
    for name, p in named:
        report(kind, "sgd/" + name, p)
