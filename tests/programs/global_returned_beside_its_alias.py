import torch

W = torch.zeros([3, 4])


def inputs(seed):
    w = W.detach()
    return [w], [W]


def program(w):
    return (W,)
