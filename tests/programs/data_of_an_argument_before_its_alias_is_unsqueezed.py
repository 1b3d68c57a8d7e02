import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = torch.randint(-5, 6, [4], generator=generator)
    y0 = x0.t()
    return [x0, y0], []


def program(x0, y0):
    t1 = x0.data
    t2 = y0.unsqueeze_(0)
    return (t1,)
