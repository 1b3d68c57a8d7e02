import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([3, 3], generator=generator).requires_grad_()
    return [b0.clone().transpose(0, -1)], [b0]


def program(x0):
    return (x0.to(torch.complex64), x0.flatten(), x0)
