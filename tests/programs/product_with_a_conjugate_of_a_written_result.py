import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = torch.randn([2, 3, 4], generator=generator).requires_grad_()
    return [x0], [x0]


def program(x0):
    t1 = x0.to(torch.complex64)
    t1[0] = t1[1]
    t2 = t1 * t1.conj()
    return t1, t2
