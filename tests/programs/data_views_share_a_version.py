import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randint(-5, 6, [1, 3], generator=generator)
    x0 = b0.clone()
    return [x0], []


def program(x0):
    t2 = x0.data
    t3 = t2.select(1, 0)
    return (t3, t2)
