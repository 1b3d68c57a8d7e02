import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = torch.randn([2, 3, 4], generator=generator)
    return [x0], []


def program(x0):
    t3 = x0 + x0
    t5 = t3.narrow(-2, 2, 1)
    t5.uniform_()
    return (0,)
