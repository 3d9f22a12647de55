#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the mlp, by PyTorch: logits, loss, every gradient, and the parameters after 10 steps of SGD and of
AdamW, from fixed weights. Computed in double from numbers that are exact in fp32, so they are the true values to all
printed digits. Run once (Debian's python3-torch 1.13); the result is committed:

    python3 tests/nn/golden_mlp.py > tests/nn/golden_mlp.txt

The file: '#' lines are comments; a tensor is a line "name dims..." and one line with its numbers.
"""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

INPUTS, WIDTH, DEPTH, CLASSES, BATCH, STEPS = 13, 17, 2, 5, 7, 10


def emit(name, tensor):
    print(name, *tensor.shape)
    print(*(f"{value:.9g}" for value in tensor.flatten().tolist()))


def mlp():
    dims = [INPUTS] + [WIDTH] * DEPTH
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.ModuleDict({"net": nn.Sequential(*layers, nn.Linear(dims[-1], CLASSES))})


def train(model, optimizer, x, y):
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model["net"](x), y).backward()
        optimizer.step()


torch.manual_seed(2)
model = mlp().double()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(parameter.float().double())
x = torch.randn(BATCH, INPUTS).double()
y = torch.randint(CLASSES, (BATCH,))

print(f"# mlp {INPUTS} -> {DEPTH} x {WIDTH} -> {CLASSES}, batch {BATCH}, torch {torch.__version__}; made by golden_mlp.py")
emit("input", x)
emit("labels", y)
for name, parameter in model.named_parameters():
    emit(name, parameter)

logits = model["net"](x)
loss = F.cross_entropy(logits, y)
loss.backward()
emit("logits", logits)
emit("loss", loss)
for name, parameter in model.named_parameters():
    emit("gradient/" + name, parameter.grad)

optimizers = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01),
}
for kind, make in optimizers.items():
    trained = copy.deepcopy(model)
    train(trained, make(trained.parameters()), x, y)
    for name, parameter in trained.named_parameters():
        emit(f"{kind}/{name}", parameter)
