import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([3, 4], generator=generator).requires_grad_()
    return [b0 * 1.0], [b0]


def program(x0):
    x0[1:, 1:] = 2
    x0 += x0
    t1 = x0.view(-1)
    return torch.nn.functional.gelu(x0), t1 * t1, t1
