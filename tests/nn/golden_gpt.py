#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the GPT models, by PyTorch: logits, loss, every gradient, and the parameters after 10 steps of SGD.
In double from numbers that are exact in fp32, so they are the true values to all printed digits. Weights and tokens are
hashes of (tensor, element), the same in test_gpt.c, so they need no place in the file. gpt-tiny whole; of each tensor of
gpt-nano 16 values and the norm. Run once (Debian's python3-torch 1.13); the result is committed:

    python3 tests/nn/golden_gpt.py > tests/nn/golden_gpt.txt
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {"tiny": (2, 3, 12, 7, 11, 5, 0.5), "nano": (4, 4, 128, 128, 256, 2, 0.0625)}   # last: batch, size of weights
STEPS, PICKS = 10, 16


def hashes(tensor, count):
    """[-0.5, 0.5), multiples of 2^-24."""
    x = (torch.arange(count, dtype=torch.int64) * 2654435761 + tensor * 40503 + 12345) % 2**32
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
        x = ((x ^ (x >> shift)) * factor) % 2**32
    return (x >> 8).double() / 2**24 - 0.5


def tokens(sequence, batch, block, vocabulary):
    return ((hashes(1000 + sequence, batch * block) + 0.5) * vocabulary).long().view(batch, block)


class Layer(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.fc, self.proj, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.attn["qkv"](x).split(c, 2))
        mask = torch.ones(t, t).tril().bool()
        scores = (q @ k.transpose(-1, -2)) * (c // self.heads) ** -0.5
        y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.attn["proj"](y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, block, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.h = nn.ModuleList(Layer(width, heads, block) for _ in range(layers))
        self.lnf = nn.LayerNorm(width)

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for layer in self.h:
            h = layer(h)
        return self.lnf(h) @ self.wte.weight.t()


def registration_order(model):
    """As the peer registers them: within a layer ln1, attn, ln2, fc, proj."""
    rank = {"ln1": 0, "attn": 1, "ln2": 2, "fc": 3, "proj": 4}
    key = lambda item: rank[item[0].split(".")[2]] if item[0].startswith("h.") else 0
    layers = [sorted(((f"h.{i}.{n}", p) for n, p in layer.named_parameters()), key=key) for i, layer in enumerate(model.h)]
    rest = {n: p for n, p in model.named_parameters() if not n.startswith("h.")}
    head = [(n, rest[n]) for n in ("wte.weight", "wpe.weight")]
    return head + sum(layers, []) + [(n, rest[n]) for n in ("lnf.weight", "lnf.bias")]


def emit(name, values):
    print(name, *values.shape)
    print(*(f"{value:.7g}" for value in values.flatten().tolist()))


def report(kind, label, tensor):
    if kind == "tiny":
        return emit(f"{kind}/{label}", tensor)
    flat = tensor.detach().flatten()
    emit(f"{kind}/{label}", flat[[k * (len(flat) // PICKS) + k * 7 % (len(flat) // PICKS) for k in range(PICKS)]])
    emit(f"{kind}/norm/{label}", flat.norm().view(1))


print(f"# gpt-tiny and gpt-nano, torch {torch.__version__}; made by golden_gpt.py")
for kind, (layers, heads, width, block, vocabulary, batch, size) in MODELS.items():
    model = GPT(layers, heads, width, block, vocabulary).double()
    named = registration_order(model)
    with torch.no_grad():
        for i, (name, p) in enumerate(named):
            value = hashes(i, p.numel()).view_as(p)
            p.copy_(value * size if p.dim() == 2 else value * 0.25 + (1 if ".ln" in "." + name and name.endswith("weight") else 0))
    x, y = tokens(0, batch, block, vocabulary), tokens(1, batch, block, vocabulary)
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
