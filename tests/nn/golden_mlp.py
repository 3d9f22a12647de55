#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the mlp, by PyTorch: logits, loss, every gradient, the parameters after 10 steps of each optimizer, with
Nesterov's momentum, clipping and schedules among them, from fixed weights, and the learning rates of the schedules. Computed in double from numbers that are exact in fp32, so they are the true values to all
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


def train(model, optimizer, x, y, clip=None, scheduler=None):
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model["net"](x), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if scheduler:
            scheduler.step()


def learning_rates(make, steps):
    """The rates of `steps` updates from 1 on by a scheduler of torch.optim.lr_scheduler."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1)
    scheduler, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


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
CLIP = 0.5   # of a norm that is larger at first and smaller later
schedulers = torch.optim.lr_scheduler
more = {
    "nesterov": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True), None, None),
    "adam": (lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01), None, None),
    "clipped": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), CLIP, None),
    "cosine": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), None, lambda o: schedulers.CosineAnnealingLR(o, STEPS)),
    "linear": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), None,
               lambda o: schedulers.LinearLR(o, 1, 0, STEPS)),
}
for kind, make in optimizers.items():
    trained = copy.deepcopy(model)
    train(trained, make(trained.parameters()), x, y)
    for name, parameter in trained.named_parameters():
        emit(f"{kind}/{name}", parameter)
for kind, (make, clip, schedule) in more.items():
    trained = copy.deepcopy(model)
    optimizer = make(trained.parameters())
    train(trained, optimizer, x, y, clip, schedule and schedule(optimizer))
    for name, parameter in trained.named_parameters():
        emit(f"{kind}/{name}", parameter)

# Warm-up of 4 updates to the whole rate, then 16 to 0: two schedulers one after the other.
WARM_UP, UPDATES = 4, 20
rise = learning_rates(lambda o: schedulers.LinearLR(o, 1 / WARM_UP, 1, WARM_UP - 1), WARM_UP)
for kind, make in (("cosine", lambda o: schedulers.CosineAnnealingLR(o, UPDATES - WARM_UP)),
                   ("linear", lambda o: schedulers.LinearLR(o, 1, 0, UPDATES - WARM_UP))):
    emit("rates/" + kind, torch.tensor(rise + learning_rates(make, UPDATES - WARM_UP), dtype=torch.float64))
