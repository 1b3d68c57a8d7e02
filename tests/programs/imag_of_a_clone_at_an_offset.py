import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = (torch.randn([6], generator=generator, dtype=torch.complex64))
    y0 = x0.data[-1]
    return [y0], []


def program(y0):
    t1 = y0.detach()
    t2 = t1.clone()
    t2.imag[...] = 1.0
    return (t2,)
