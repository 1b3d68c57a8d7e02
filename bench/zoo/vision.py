"""A ResNet written out, a U-Net, a GAN."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.zoo.study import OneModule, Parts, Study, integers, random


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNetModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 1, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.layer1 = nn.Sequential(Residual(8, 8), Residual(8, 8))
        self.layer2 = nn.Sequential(Residual(8, 16, 2), Residual(16, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        x = self.layer2(self.layer1(self.stem(x)))
        logits = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits if target is None else F.cross_entropy(logits, target, label_smoothing=0.1)


class ResNet(OneModule):
    name = "ResNet with BatchNorm, 4 blocks"

    def make(self) -> nn.Module:
        return ResNetModel()

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        x = random(i, 4, 3, 16, 16)
        return ((x, integers(i, 10, 4)) if self.module.training else (x,)), {}

    def loss(self, result: Any, i: int) -> Tensor:
        return result


def double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(2, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.SiLU(),
    )


class UNetModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([double(1, 4), double(4, 8)])
        self.middle = double(8, 16)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)])
        self.merge = nn.ModuleList([double(16, 8), double(8, 4)])
        self.out = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            skip = skipped.pop()
            x = up(x)
            if x.shape[-2:] != skip.shape[-2:]:
                x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            x = merge(torch.cat([skip, x], dim=1))
        return self.out(x)


class UNet(OneModule):
    name = "U-Net, 2 levels, odd sizes"

    def make(self) -> nn.Module:
        return UNetModel()

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        return (random(i, 2, 1, 18, 22),), {}

    def loss(self, result: Any, i: int) -> Tensor:
        target = integers(i, 2, 2, 18, 22)
        dice = (result.softmax(1)[:, 1] * target).sum() / (target.sum() + 1e-6)
        return F.cross_entropy(result, target) + 1 - dice


class Gan(Study):
    """Two losses: the discriminator's on detached fakes, the generator's through the discriminator."""

    name = "GAN, both steps"

    def __init__(self) -> None:
        self.g = nn.Sequential(
            nn.Linear(8, 32), nn.BatchNorm1d(32), nn.LeakyReLU(0.2), nn.Linear(32, 16), nn.Tanh()
        )
        self.d = nn.Sequential(
            nn.Linear(16, 32), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.2), nn.Linear(32, 1)
        )

    def modules(self) -> list[nn.Module]:
        return [self.g, self.d]

    def parts(self) -> Parts:
        return {"discriminator": self.discriminator_loss, "generator": self.generator_loss}

    def discriminator_loss(self, real: Tensor, noise: Tensor) -> Tensor:
        fake = self.g(noise).detach()
        on_real, on_fake = self.d(real), self.d(fake)
        return F.binary_cross_entropy_with_logits(
            on_real, torch.ones_like(on_real)
        ) + F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake))

    def generator_loss(self, noise: Tensor) -> Tensor:
        on_fake = self.d(self.g(noise))
        return F.binary_cross_entropy_with_logits(on_fake, torch.ones_like(on_fake))

    def step(self, f: Parts, i: int) -> list[Tensor]:
        d_loss = f["discriminator"](random(i, 12, 16), random(i + 1, 12, 8))
        d_loss.backward()
        for p in self.d.parameters():
            p.requires_grad_(False)
        g_loss = f["generator"](random(i + 2, 12, 8))
        g_loss.backward()
        for p in self.d.parameters():
            p.requires_grad_(True)
        return [d_loss.detach(), g_loss.detach()]

    def evaluate(self, f: Parts, i: int) -> list[Tensor]:
        return [f["generator"](random(i, 12, 8))]


STUDIES: list[type[Study]] = [ResNet, UNet, Gan]
