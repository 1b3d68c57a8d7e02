import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([8], generator=generator).requires_grad_()
    x0 = b0[1:7]
    return [x0, x0.detach()], [b0]


def program(x0, y0):
    t1 = y0.view(y0.shape)
    t2 = t1.view(t1.shape)
    y0.mul_(x0)
    return t1, t2
