import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([2, 3, 4], generator=generator).requires_grad_()
    x0 = b0.clone().transpose(0, -1)
    return [x0, x0[0]], [b0]


def program(x0, y0):
    t0 = y0.detach()
    t1 = y0.unflatten(-2, (3, 1))
    t0 += t0
    t1[:-1] += 1
    return (t1 * t1, x0)
