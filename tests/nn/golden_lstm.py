#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the LSTM models, by PyTorch: logits, loss, every gradient, and the parameters after 10 steps of SGD; and the
order in which autograd's accumulators have them. lstm-tiny whole, of each tensor of lstm 16 values and the norm (golden_tokens.py).
Run once (Debian's python3-torch 1.13); the result is committed:

    python3 tests/nn/golden_lstm.py > tests/nn/golden_lstm.txt
"""
import torch
import torch.nn as nn

from golden_tokens import fill, tokens, train

MODELS = {"tiny": (6, 5, 7, 11, 5, 1.0), "lstm": (256, 256, 64, 256, 2, 0.125)}   # last: batch, size of weights


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


print(f"# lstm-tiny and lstm, torch {torch.__version__}; made by golden_lstm.py")
for kind, (embedding, width, block, vocabulary, batch, size) in MODELS.items():
    model = LSTM(embedding, width, vocabulary).double()
    named = list(model.named_parameters())
    fill(named, lambda name, p, hashed: hashed * (size if p.dim() == 2 else 0.25))
    x, y = tokens(0, batch, block, vocabulary), tokens(1, batch, block, vocabulary)
    print("# ready:", *ready_order(model, x))
    train(kind, model, named, x, y)
