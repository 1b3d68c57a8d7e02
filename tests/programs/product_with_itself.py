import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([3, 4], generator=generator, dtype=torch.float64)).requires_grad_()
    x0 = b0 * 1.0
    return [x0], [b0]


def program(x0):
    x0.mul_(x0)
    return (0,)
