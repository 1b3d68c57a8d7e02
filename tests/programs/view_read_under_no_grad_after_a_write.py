import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([3, 3], generator=generator, dtype=torch.float32)).requires_grad_()
    c1 = b1 * 1.0
    x2 = torch.randn([2, 3], generator=generator, dtype=torch.float32)
    return [c1, x2], [b1]


def program(c1, x2):
    t1 = c1[:1]
    with torch.no_grad():
        c1[2].mul_(3)
        t2 = t1.t()
    x2.mul_(t1)
    return (t2,)
