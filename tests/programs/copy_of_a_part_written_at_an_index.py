import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([8], generator=generator, dtype=torch.float32))
    x0 = (b0 * 1.0)[1:7]
    return [x0], []


def program(x0):
    x0[0] = x0[1]
    t1 = torch.where(x0 > 0, x0, x0 * 0.5)
    t2 = t1.copy_(x0)
    t1[0] *= 0.5
    return (t1,)
