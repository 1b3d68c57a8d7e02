import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = (torch.randn([4], generator=generator, dtype=torch.float32)).requires_grad_()
    x0 = b0 * 1.0
    return [x0], [b0]


def program(x0):
    x0[0] = -1.5
    return (0,)
