import torch


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    x1 = torch.randn([6], generator=generator, dtype=torch.float32)
    b2 = (torch.randn([8], generator=generator, dtype=torch.float32)).requires_grad_()
    x2 = (b2 * 1.0)[1:7]
    return [x1, x2], [b2]


def program(x1, x2):
    t2 = x1.squeeze(-1)
    t2.data.copy_(x2)
    t2[0] = t2[1]
    return (0,)
