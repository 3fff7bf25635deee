"""Small networks of PyTorch with random weights: what ResNet-18, MobileNetV3, BERT and Llama are made of."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                  nn.BatchNorm2d(outputs)) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)), inplace=True)))
        y += self.skip(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Residual(width, width, 1), Residual(width, 2 * width, 2))
        self.pool, self.head = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2 * width, 10)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Squeeze(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pool, self.down, self.up = nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(self.pool(x)))))


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(inplace=True),
            nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
            nn.Conv2d(16, 16, 5, 1, 2, groups=16, bias=False), nn.BatchNorm2d(16), Squeeze(16), nn.Conv2d(16, 8, 1))
        self.head = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(16, 5))

    def forward(self, x):
        return self.head(self.features(x).mean([2, 3]))


class Bert(nn.Module):
    def __init__(self, width=16, heads=2, longest=12):
        super().__init__()
        self.heads, self.words, self.places = heads, nn.Embedding(30, width), nn.Embedding(longest, width)
        self.register_buffer("numbers", torch.arange(longest)[None])
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.wide, self.narrow, self.pool = nn.Linear(width, 64), nn.Linear(64, width), nn.Linear(width, width)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, ids, mask):
        x = self.norms[0](self.words(ids) + self.places(self.numbers[:, :ids.size(1)]))
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + hidden, -1)
        x = self.norms[1](x + self.out((weights @ v).permute(0, 2, 1, 3).contiguous().flatten(2)))
        x = self.norms[2](x + self.narrow(F.gelu(self.wide(x))))
        return x, torch.tanh(self.pool(x[:, 0]))


class Llama(nn.Module):
    def __init__(self, width=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm, self.scale = nn.RMSNorm(width, eps=1e-6), nn.Parameter(torch.rand(width))
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.register_buffer("turns", 1 / 10000 ** (torch.arange(0, size, 2).float() / size))

    def turned(self, x):
        angles = torch.outer(torch.arange(x.shape[2]).float(), self.turns)
        angles = torch.cat((angles, angles), -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()

    def forward(self, x):
        batch, length, width = x.shape
        y = self.norm(x)
        q, k, v = (layer(y).view(batch, length, n, -1).transpose(1, 2) for layer, n in (
            (self.query, self.heads), (self.key, self.groups), (self.value, self.groups)))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))
