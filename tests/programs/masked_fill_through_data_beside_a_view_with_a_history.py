import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b0 = torch.randn([3, 3], generator=generator, dtype=torch.float32)
    x0 = b0 * 1.0
    b1 = (torch.randn([3, 3], generator=generator, dtype=torch.float32)).requires_grad_()
    x1 = (b1 * 1.0)[1:2]
    y1 = x1.data[-1]
    return [x0, x1, y1], [b1]


def program(x0, x1, y1):
    y1.masked_fill_(y1 > 0, 2)
    t2 = x0 * x1
    y1[:-1] += 1
    return (t2,)
