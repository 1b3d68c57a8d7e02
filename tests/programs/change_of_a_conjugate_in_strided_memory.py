import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([2, 3, 4], generator=generator, dtype=torch.complex64).requires_grad_()
    x0 = b0 * 1.0
    return [x0, x0.flatten()[::2]], [b0]


def program(x0, y0):
    t0 = y0.conj()
    with torch.no_grad():
        t0.neg_()
    t0 += 1
    return (x0 * 2, y0.unflatten(0, (3, 4)).sum(0))
