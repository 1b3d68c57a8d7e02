import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([6], generator=generator, dtype=torch.float32))
    x1 = b1 * 1.0
    y1 = x1
    return [y1], []


def program(y1):
    torch._foreach_add_([y1, y1], 1)
    return (0,)
