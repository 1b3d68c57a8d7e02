"""A graph network, and reinforcement learning with a target network."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.zoo.study import OneModule, Parts, Study, integers, random


class Convolution(nn.Module):
    """Messages along edges, summed with index_add_ and averaged by degree."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.message = nn.Linear(2 * inputs, outputs)
        self.own = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        messages = F.relu(self.message(torch.cat([x[source], x[target]], dim=1)))
        total = x.new_zeros(x.size(0), messages.size(1)).index_add_(0, target, messages)
        degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(target.size(0)))
        return self.own(x) + total / degree.clamp(min=1).unsqueeze(1)


class Attention(nn.Module):
    """Softmax over the edges that enter a node: scatter_reduce for the maximum, scatter_add for the sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        score = F.leaky_relu(self.score(torch.cat([x[source], x[target]], 1))).squeeze(1)
        highest = torch.full((x.size(0),), -1e9).scatter_reduce(0, target, score, "amax")
        weight = (score - highest[target]).exp()
        total = torch.zeros(x.size(0)).scatter_add(0, target, weight)
        weight = weight / (total[target] + 1e-9)
        return torch.zeros_like(x).index_add(0, target, x[source] * weight.unsqueeze(1))


class GraphModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.attention, self.conv2 = (
            Convolution(6, 16),
            Attention(16),
            Convolution(16, 16),
        )
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor, graphs: int) -> Tensor:
        x = F.dropout(F.elu(self.conv1(x, edges)), 0.1, self.training)
        x = x + self.attention(x, edges)
        x = self.conv2(x, edges)
        pooled = torch.zeros(graphs, x.size(1)).index_add_(0, graph, x)
        return self.head(pooled)


class Graphs(OneModule):
    name = "GNN with index_add, scatter_reduce"

    def make(self) -> nn.Module:
        return GraphModel()

    def batch(self, i: int) -> tuple[tuple, dict[str, Any]]:
        graph = torch.arange(20) // 5
        return (random(i, 20, 6), integers(i, 20, 2, 48), graph, 4), {}

    def loss(self, result: Any, i: int) -> Tensor:
        return F.cross_entropy(result, integers(i, 3, 4))


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.policy(h), self.value(h).squeeze(-1)


class Reinforcement(Study):
    """A clipped policy loss: detached advantages, a target network under no_grad, an entropy bonus."""

    name = "RL loss: clipped policy, target network"

    def __init__(self) -> None:
        self.model = ActorCritic()
        self.target = copy.deepcopy(self.model).requires_grad_(False)
        self.clip = 0.2

    def modules(self) -> list[nn.Module]:
        return [self.model, self.target]

    def parameters(self) -> list[Tensor]:
        return list(self.model.parameters())

    def parts(self) -> Parts:
        return {"loss": self.loss, "track": self.track}

    def loss(self, state: Tensor, action: Tensor, old: Tensor, reward: Tensor) -> dict[str, Tensor]:
        logits, value = self.model(state)
        with torch.no_grad():
            returns = torch.zeros_like(reward)
            running = self.target(state[-1])[1]
            for t in reversed(range(reward.size(0))):
                running = reward[t] + 0.9 * running
                returns[t] = running
        advantage = (returns - value).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log = logits.log_softmax(-1)
        taken = log.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        ratio = (taken - old).exp()
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        policy = -torch.min(ratio * advantage, clipped * advantage).mean()
        entropy = -(log.exp() * log).sum(-1).mean()
        # a straight-through estimate: the value of the hard choice, the gradient of the soft one
        soft = logits.softmax(-1)
        hard = F.one_hot(soft.argmax(-1), 4).to(soft.dtype)
        through = hard + soft - soft.detach()
        value_loss = F.smooth_l1_loss(value, returns)
        total = policy + 0.5 * value_loss - 0.01 * entropy + 0.1 * through.square().mean()
        return {"loss": total, "entropy": entropy.detach(), "ratio": ratio.detach().mean()}

    @torch.no_grad()
    def track(self) -> None:
        """The target network follows the model."""
        for slow, fast in zip(self.target.parameters(), self.model.parameters(), strict=True):
            slow.mul_(0.95).add_(fast, alpha=0.05)

    def step(self, f: Parts, i: int) -> list[Tensor]:
        old = random(i + 9, 8, 5).abs().neg()
        out = f["loss"](random(i, 8, 5, 6), integers(i, 4, 8, 5), old, random(i + 1, 8, 5))
        out["loss"].backward()
        f["track"]()
        return [t.detach() for t in out.values()]

    def evaluate(self, f: Parts, i: int) -> list[Tensor]:
        old = random(i + 9, 8, 5).abs().neg()
        out = f["loss"](random(i, 8, 5, 6), integers(i, 4, 8, 5), old, random(i + 1, 8, 5))
        return list(out.values())


STUDIES: list[type[Study]] = [Graphs, Reinforcement]
