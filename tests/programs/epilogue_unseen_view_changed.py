import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x0 = torch.randn([2, 3], generator=generator)
    return [x0], []


def program(x0):
    t1 = x0.view(-1)
    t2 = x0[0]
    t3 = x0[1].unsqueeze(0)
    x0.transpose_(0, 1)
    t1.squeeze_()
    t2.unsqueeze_(0)
    t3.squeeze_()
    return t3
