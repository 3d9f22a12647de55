#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the LSTM models, by PyTorch: logits, loss, every gradient, and the parameters after 10 steps of SGD; and the
order in which autograd's accumulators have them. In double from numbers that are exact in fp32. Weights and tokens are hashes of
(tensor, element), the same in hashed.h. lstm-tiny whole; of each tensor of lstm 16 values and the norm. Run once (Debian's
python3-torch 1.13); the result is committed:

    python3 tests/nn/golden_lstm.py > tests/nn/golden_lstm.txt
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {"tiny": (6, 5, 7, 11, 5, 1.0), "lstm": (256, 256, 64, 256, 2, 0.125)}   # last: batch, size of weights
STEPS, PICKS = 10, 16


def hashes(tensor, count):
    """[-0.5, 0.5), multiples of 2^-24."""
    x = (torch.arange(count, dtype=torch.int64) * 2654435761 + tensor * 40503 + 12345) % 2**32
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
        x = ((x ^ (x >> shift)) * factor) % 2**32
    return (x >> 8).double() / 2**24 - 0.5


def tokens(sequence, batch, block, vocabulary):
    return ((hashes(1000 + sequence, batch * block) + 0.5) * vocabulary).long().view(batch, block)


class LSTM(nn.Module):
    def __init__(self, embedding, width, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])


def ready_order(model, x):
    """Names of the parameters as their accumulators run; the same for any length and batch."""
    order, kept = [], []
    for name, p in model.named_parameters():
        kept.append(p.expand_as(p).grad_fn.next_functions[0][0])
        kept[-1].register_hook(lambda *_, name=name: order.append(name))
    model(x).sum().backward()
    return order


def emit(name, values):
    print(name, *values.shape)
    print(*(f"{value:.7g}" for value in values.flatten().tolist()))


def report(kind, label, tensor):
    if kind == "tiny":
        return emit(f"{kind}/{label}", tensor)
    flat = tensor.detach().flatten()
    emit(f"{kind}/{label}", flat[[k * (len(flat) // PICKS) + k * 7 % (len(flat) // PICKS) for k in range(PICKS)]])
    emit(f"{kind}/norm/{label}", flat.norm().view(1))


print(f"# lstm-tiny and lstm, torch {torch.__version__}; made by golden_lstm.py")
for kind, (embedding, width, block, vocabulary, batch, size) in MODELS.items():
    model = LSTM(embedding, width, vocabulary).double()
    named = list(model.named_parameters())
    with torch.no_grad():
        for i, (name, p) in enumerate(named):
            p.copy_(hashes(i, p.numel()).view_as(p) * (size if p.dim() == 2 else 0.25))
    x, y = tokens(0, batch, block, vocabulary), tokens(1, batch, block, vocabulary)
    print("# ready:", *ready_order(model, x))
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
