import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([3, 3], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0 * 1.0
    y0 = x0.t()
    z0 = x0.detach()
    return [x0, y0, z0], [b0]


def program(x0, y0, z0):
    y0[0].exp_()
    t1 = x0 * 3
    z0[1] = 2
    x0.add_(t1)
    return (t1, y0)
