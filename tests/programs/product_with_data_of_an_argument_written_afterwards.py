import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([2, 3, 4], generator=generator, dtype=torch.float64)).requires_grad_()
    x1 = b1 * 1.0
    y1 = x1[:-1]
    x2 = torch.randn([4, 4], generator=generator, dtype=torch.complex64)
    y2 = x2.data[-1]
    return [y1, x2, y2], [b1]


def program(y1, x2, y2):
    t1 = y2 * y1
    x2 += 0.5
    return (t1,)
