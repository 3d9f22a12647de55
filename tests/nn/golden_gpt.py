#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the GPT models, by PyTorch: logits, loss, every gradient, and the parameters after 10 steps of SGD. gpt-tiny
whole, of each tensor of gpt-nano 16 values and the norm (golden_tokens.py). Run once (Debian's python3-torch 1.13); the result is
committed:

    python3 tests/nn/golden_gpt.py > tests/nn/golden_gpt.txt
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_tokens import fill, tokens, train

MODELS = {"tiny": (2, 3, 12, 7, 11, 5, 0.5), "nano": (4, 4, 128, 128, 256, 2, 0.0625)}   # last: batch, size of weights


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


def value(name, p, hashed, size):
    norm = ".ln" in "." + name and name.endswith("weight")
    return hashed * size if p.dim() == 2 else hashed * 0.25 + (1 if norm else 0)


print(f"# gpt-tiny and gpt-nano, torch {torch.__version__}; made by golden_gpt.py")
for kind, (layers, heads, width, block, vocabulary, batch, size) in MODELS.items():
    model = GPT(layers, heads, width, block, vocabulary).double()
    named = registration_order(model)
    fill(named, lambda name, p, hashed: value(name, p, hashed, size))
    train(kind, model, named, tokens(0, batch, block, vocabulary), tokens(1, batch, block, vocabulary))
