import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([6, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = b1[1:5]
    b2 = (torch.randn([4, 3, 4], generator=generator, dtype=torch.float32)).requires_grad_()
    x2 = (b2 * 1.0)[1:3]
    return [x1, x2], [b1, b2]


def program(x1, x2):
    t1 = x1.sigmoid()
    return (t1,)
