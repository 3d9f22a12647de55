#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the residual networks, by PyTorch in double from numbers that are exact in fp32. Run once (Debian's
python3-torch 1.13); the result is committed:

    python3 tests/nn/golden_resnet.py > tests/nn/golden_resnet.txt

tiny/: resnet20's rules with width 4, one block a stage, 8 x 8 images: weights, gradients, and 10 steps of SGD with running
statistics. resnet20/: the network itself, and tiny50/: torchvision's bottleneck network (width 4, two blocks a stage, 32 x
32), from pseudo-random weights (see `noise`): logits, loss, the norm and the first value of each gradient.

Images stand as [h][w][c], tensors of parameters in PyTorch's order. The file: see golden_mlp.py.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 10


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.short = None
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        s = x if self.short is None else self.short(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + s)


class ResNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        blocks, cin = [], width
        for stage in range(3):
            for i in range(depth):
                blocks.append(Block(cin, width << stage, 2 if stage and not i else 1))
                cin = width << stage
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(cin, classes)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, cin, inner, stride):
        super().__init__()
        out = 4 * inner
        self.conv1, self.bn1 = nn.Conv2d(cin, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or cin != out:
            self.downsample = nn.Sequential(nn.Conv2d(cin, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        cin = width
        for stage, count in enumerate(blocks):
            layer = []
            for i in range(count):
                layer.append(Bottleneck(cin, width << stage, 2 if stage and not i else 1))
                cin = 4 * (width << stage)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def emit(name, tensor):
    print(name, *tensor.shape)
    print(*(f"{value:.7g}" for value in tensor.flatten().tolist()))


def in_fp32(tensor):
    return tensor.float().double()


def ready_order(model, x, y):
    """Names of the parameters as their gradients become ready."""
    order, keep = [], []
    for name, parameter in model.named_parameters():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_, name=name: order.append(name))
        keep.append(node)
    F.cross_entropy(model(x), y).backward()
    model.zero_grad()
    return order


def state(prefix, model):
    for name, parameter in model.named_parameters():
        emit(prefix + name, parameter)
    for name, buffer in model.named_buffers():
        if "running" in name:
            emit(prefix + name, buffer)


def emit_ready(prefix, model, x, y):
    numbers = {name: i for i, (name, _) in enumerate(model.named_parameters())}
    emit(prefix + "ready", torch.tensor([numbers[name] for name in ready_order(model, x, y)]))


def small(prefix, model, height, batch, classes):
    model = model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.3 * torch.randn_like(parameter) if "bn" in name or ".1." in name else 0
            parameter.copy_(in_fp32(parameter + noise))
    x = in_fp32(torch.randn(batch, 3, height, height).double())
    y = torch.randint(classes, (batch,))
    emit(prefix + "input", x.permute(0, 2, 3, 1))
    emit(prefix + "labels", y)
    for name, parameter in model.named_parameters():
        emit(prefix + name, parameter)
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    emit(prefix + "logits", logits)
    emit(prefix + "loss", loss)
    for name, parameter in model.named_parameters():
        emit(prefix + "gradient/" + name, parameter.grad)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    optimizer.step()
    for _ in range(STEPS - 1):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    state(prefix + "sgd/", model)
    model.eval()
    emit(prefix + "evaluation", model(x))
    model.train()
    emit_ready(prefix, model, x, y)


def noise(count, seed, scale):
    """scale times uniform numbers in [-1, 1): a linear congruential generator that test_golden_resnet.c has too."""
    values, state = [], 1000 + seed
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        values.append(scale * (state / 2**30 - 1))
    return torch.tensor(values, dtype=torch.float64)


def whole(prefix, model, batch, height, classes):
    model = model.double()
    names = [name for name, _ in model.named_parameters()]
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            matrix = parameter.dim() > 1
            values = noise(parameter.numel(), i, 2 / math.sqrt(parameter[0].numel()) if matrix else 0.2)
            if not matrix and names[i].endswith("weight"):
                values = values + 1
            parameter.copy_(in_fp32(values).view_as(parameter))
    x = in_fp32(noise(batch * 3 * height * height, 500, 1.5)).view(batch, height, height, 3).permute(0, 3, 1, 2)
    y = torch.arange(batch) % classes
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    emit(prefix + "logits", logits)
    emit(prefix + "loss", loss)
    emit(prefix + "norms", torch.stack([parameter.grad.norm() for parameter in model.parameters()]))
    emit(prefix + "firsts", torch.stack([parameter.grad.flatten()[0] for parameter in model.parameters()]))
    emit_ready(prefix, model, x, y)


torch.manual_seed(3)
print(f"# residual networks, torch {torch.__version__}; made by golden_resnet.py")
small("tiny/", ResNet(4, 1, 5), 8, 6, 5)
whole("tiny50/", ResNet50(4, (2, 2, 2, 2), 7), 3, 64, 7)
whole("resnet20/", ResNet(16, 3, 10), 2, 32, 10)  # few: a value near 0 that rounding moves past a ReLU moves norms by 1e-3
