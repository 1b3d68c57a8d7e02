import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([1, 3], generator=generator, dtype=torch.complex64)
    x0 = b0 * 1.0
    return [x0], []


def program(x0):
    t1 = x0[::2]
    x0.transpose_(0, 1)
    t3 = t1[...]
    return (t3,)
