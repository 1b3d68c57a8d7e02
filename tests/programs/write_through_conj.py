import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x1 = torch.randn([3, 4], generator=generator, dtype=torch.complex64)
    y1 = x1[1:]
    return [y1], []


def program(y1):
    t1 = y1.conj()
    t1.mul_(t1)
    return (0,)
