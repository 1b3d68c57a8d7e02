import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([3, 4], generator=generator).requires_grad_()
    return [b0.clone().transpose(0, -1)], [b0]


def program(x0):
    t0 = x0.transpose(0, -1)
    t1 = t0.mT
    x0.unsqueeze_(0)
    t0 += t0
    t1.squeeze_()
    return x0
