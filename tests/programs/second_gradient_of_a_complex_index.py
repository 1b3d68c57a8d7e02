import torch



def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    b1 = (torch.randn([3, 3], generator=generator, dtype=torch.complex64)).requires_grad_()
    x1 = b1 * 1.0
    y1 = x1.t()
    return [y1], [b1]


def program(y1):
    y1[torch.tensor([1, 2], dtype=torch.int64)] *= 2
    t3 = y1.abs()
    t4 = t3.sum(0)
    return (t4,)
