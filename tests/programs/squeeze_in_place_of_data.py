import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([2, 3, 4], generator=generator, dtype=torch.float64))
    x0 = b0 * 1.0
    return [x0], []


def program(x0):
    t1 = x0.swapaxes(1, 0)
    t3 = t1 * t1
    t5 = t3.data
    t5.squeeze_()
    return (t5,)
